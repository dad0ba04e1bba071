"""What the documentation says to type works."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from dra_cli import commandline

from tests.docs.flags import service_options
from tests.docs.shell import Block, Command, Page, Session, examples, lines, page, unmarked
from tests.support.reference import REFERENCE, REPOSITORY

_DOCS = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
_PAGES = [page(path) for path in _DOCS]
_SHOWN = [one for one in [*_PAGES, *examples()] if one.blocks]
_INLINE = re.compile(r"`((?:DRALAB_\w+=\S+ )*(?:dralab|make)(?:-[a-z-]+)? [^`]+)`")
# Of a page that may take five minutes.
_AGE = re.compile(r"\b(?:\d+s|[2-5]m(?:\d+s)?)\b")
_PROGRESS = re.compile(r"^\w+ \d+/\d+ after \d+ s\n", re.MULTILINE)


def _name(page: Page) -> str:
    return page.name


@pytest.fixture
def session() -> Iterator[Session]:
    # Below /tmp, because a unix socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="d", dir="/tmp") as folder:
        made = Session(Path(folder))
        try:
            yield made
        finally:
            made.stop()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("shown", [one for one in _SHOWN if one.runs()], ids=_name)
def test_commands_do_what_the_page_says(shown: Page, session: Session) -> None:
    script, checks = _script(shown)
    if "$REFERENCE" in script and not REFERENCE.exists():
        pytest.skip("the reference material is absent")
    if "kubectl" in script and shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on the PATH")
    result = session.run(script)
    assert result.returncode == 0, f"{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
    outputs = dict(re.findall(r"^<(\d+)>\n(.*?)^</\1>$", result.stdout, re.MULTILINE | re.DOTALL))
    for number, command in checks.items():
        printed = outputs[str(number)]
        assert _pattern(command.output or "").fullmatch(_plain(printed)), f"$ {command.text}\n{printed}"


def _script(shown: Page) -> tuple[str, dict[int, Command]]:
    """A page's commands, and by number those whose output it shows."""
    parts: list[str] = []
    checks: dict[int, Command] = {}
    for block in shown.runs():
        parts += block.before
        for command in block.commands:
            if command.output is None:
                parts.append(command.text)
                continue
            number = len(checks)
            checks[number] = command
            wanted = f"! {{ {command.text}; }}" if command.fails else command.text
            # Not every command ends its last line.
            parts += [f"echo '<{number}>'", f"{wanted} 2>&1", f"printf '\\n</{number}>\\n'"]
    return "\n".join(parts) + "\n", checks


def _plain(text: str) -> str:
    """Without what no two runs have in common: how long ago, a column's width, and how far a slow machine has come."""
    return re.sub(r"\s+", " ", _AGE.sub("7s", _PROGRESS.sub("", text))).strip()


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part.strip()) + r"\s*" for part in _plain(text).split("…")))


_BLOCKS = [block for one in _SHOWN for block in one.blocks]


def _commands() -> Iterator[tuple[str, list[str]]]:
    for block in _BLOCKS:
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


def test_commands_and_options_exist() -> None:
    """What is not run, and what stands in a sentence, can at least be parsed."""
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
        subprocess.run(["make", "-n", *arguments], cwd=REPOSITORY, check=True, capture_output=True)
    elif program == "docker" and "--scale" in arguments:
        service = arguments[arguments.index("--scale") + 1].partition("=")[0]
        if f"\n  {service}:\n" not in (REPOSITORY / "docker-compose.yml").read_text():
            raise ValueError(f"no service {service}")


def _read(parser: commandline.Parser, words: list[str]) -> None:
    """Read the words; what a sentence leaves out is none of its concern."""
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


@pytest.mark.parametrize("path", _DOCS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_blocks_of_commands_say_so(path: Path) -> None:
    """A block with commands is marked ``sh`` or ``console``, so that no command goes unchecked."""
    assert not unmarked(path)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_session_of_testing_with_dralab_runs(tmp_path: Path) -> None:
    """The Python files of docs/testing-with-dralab.md, as they stand there."""
    text = (REPOSITORY / "docs" / "testing-with-dralab.md").read_text()
    for name, body in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", text, re.DOTALL):
        (tmp_path / name).write_text(body)
    programs = Path(shutil.which("dralab") or Path(sys.executable).parent / "dralab").parent
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout
