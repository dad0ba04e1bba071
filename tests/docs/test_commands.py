"""Commands in the documentation work as shown."""

import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from dra_cli import commandline
from dra_kube.cluster import Cluster
from dra_lab import run as clusters

from tests.docs.flags import service_options
from tests.docs.shell import Block, Command, Page, examples, lines, page, run, unmarked_commands
from tests.support.cases import each_case
from tests.support.reference import REPOSITORY
from tests.support.sampling import sample

_DOCS = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
_README = REPOSITORY / "README.md"
_PAGES = [page(path) for path in _DOCS]
_RUN = [one for one in _PAGES if one.runs() and one.path != _README]
_TARGETS = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
_PAGES_OF_A_SAMPLE = 1
_INLINE = re.compile(r"`((?:DRALAB_\w+=\S+ )*(?:dralab|make)(?:-[a-z-]+)? [^`]+)`")
# The limit for a page that may take five minutes.
_AGE = re.compile(r"\b(?:\d+s|[2-5]m(?:\d+s)?)\b")
_PROGRESS = re.compile(r"^\w+ \d+/\d+ after \d+ s\n", re.MULTILINE)


@pytest.fixture
def folder() -> Iterator[Path]:
    # Below /tmp, because a unix socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="d", dir="/tmp") as parent:
        empty = Path(parent) / "w"
        empty.mkdir()
        try:
            yield empty
        finally:
            for data in _running_clusters(empty):
                clusters.down(data)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "shown", [page(_README), *sample(_RUN, _PAGES_OF_A_SAMPLE)], ids=lambda shown: shown.name
)
def test_the_commands_of_a_page_have_the_output_that_the_page_shows(shown: Page, folder: Path) -> None:
    if shown.path == _README:
        # The README assumes that its commands are run in the checkout.
        (folder / ".venv").symlink_to(sys.prefix)
        (folder / "examples").symlink_to(REPOSITORY / "examples")
    script, checks = _script(shown)
    if "kubectl" in script and shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on the PATH")
    result = run(script, folder)
    assert result.returncode == 0, f"{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
    assert not list(_running_clusters(folder)), "the page leaves a cluster, which has the next page's port"
    outputs = dict(re.findall(r"^<(\d+)>\n(.*?)^</\1>$", result.stdout, re.MULTILINE | re.DOTALL))
    for number, command in checks.items():
        printed = outputs[str(number)]
        assert _pattern(command.output or "").fullmatch(_plain(printed)), f"$ {command.text}\n{printed}"


def _running_clusters(folder: Path) -> Iterator[Path]:
    for file in folder.rglob("kubeconfig"):
        if Cluster(file.parent).is_running():
            yield file.parent


def _script(shown: Page) -> tuple[str, dict[int, Command]]:
    """Return a page's commands, and by number those whose output it shows."""
    parts: list[str] = []
    checks: dict[int, Command] = {}
    for block in shown.runs():
        for command in block.commands:
            if command.output is None:
                parts.append(command.text)
                continue
            number = len(checks)
            checks[number] = command
            wanted = f"! {{ {command.text}; }}" if command.fails else command.text
            # Not every command ends its last line with a newline.
            parts += [f"echo '<{number}>'", f"{wanted} 2>&1", f"printf '\\n</{number}>\\n'"]
    return "\n".join(parts) + "\n", checks


def _plain(text: str) -> str:
    """Remove parts of the output that differ between runs: ages, column widths, and progress."""
    return re.sub(r"\s+", " ", _AGE.sub("7s", _PROGRESS.sub("", text))).strip()


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part.strip()) + r"\s*" for part in _plain(text).split("…")))


def _commands() -> Iterator[tuple[str, list[str]]]:
    for block in (*(block for one in _PAGES for block in one.blocks), *examples()):
        for command in block.commands:
            for words in lines(command.text):
                yield _place(block), words
    for path in _DOCS:
        text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
        for shown in _INLINE.findall(text):
            for words in lines(shown.replace("\n", " ").replace("…", "")):
                yield str(path.relative_to(REPOSITORY)), words


def _place(block: Block) -> str:
    return f"{block.page.relative_to(REPOSITORY)}:{block.line}"


def test_documented_commands_and_options_exist() -> None:
    """Commands that are not run, and those in sentences, are parsed at least."""
    wrong = []
    for where, words in _commands():
        try:
            _parse(words)
        except Exception as error:
            wrong.append(f"{where}: {shlex.join(words)}: {error}")
    assert not wrong


def _parse(words: list[str]) -> None:
    end = next((place for place, word in enumerate(words) if word in ("|", "||", ">")), None)
    program, *arguments = words[:end]
    if program == "dralab" and arguments[0] not in ("COMMAND", "--help", "-h", "--version"):
        name, *given = arguments
        module = commandline.command(name)
        if not hasattr(module, "TAKES_ALL"):
            _read(commandline.parser(name, module), [word for word in given if word not in ("--help", "-h")])
    elif program.startswith("dralab-"):
        _parse_service(program.removeprefix("dralab-"), arguments)
    elif program == "make":
        unknown = {word for word in arguments if "=" not in word} - _TARGETS
        if unknown:
            raise ValueError(f"no target {', '.join(unknown)}")
    elif program == "docker" and "--scale" in arguments:
        service = arguments[arguments.index("--scale") + 1].partition("=")[0]
        if f"\n  {service}:\n" not in (REPOSITORY / "docker-compose.yml").read_text():
            raise ValueError(f"no service {service}")


def _read(parser: commandline.Parser, words: list[str]) -> None:
    """Parse the words. Words that a sentence leaves out are not checked."""
    for action in parser._actions:
        action.required = False
        if action.nargs is None:
            action.nargs = "?"
    parser.read(words)


def _parse_service(service: str, arguments: list[str]) -> None:
    parser = service_options(f"dra_{service.replace('-', '_')}")
    flags = {flag for action in parser._actions for flag in action.option_strings}
    unknown = {word.partition("=")[0] for word in arguments if word.startswith("--")} - flags
    if unknown:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}")


@each_case("path", _DOCS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_code_blocks_with_commands_are_marked_as_sh_or_console(path: Path) -> None:
    """A block with commands is marked ``sh`` or ``console``, so that every command is checked."""
    assert not unmarked_commands(path)
