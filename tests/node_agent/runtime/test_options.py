"""Simulated programs behave as GNU's, or print that an option is not simulated."""

import asyncio
import json
from datetime import UTC, datetime

import pytest
from dra_node_agent.runtime.shell.files import Files
from dra_node_agent.runtime.shell.interpreter import Shell
from dra_node_agent.runtime.shell.options import DeclaredProgram, UsageError, parse
from dra_node_agent.runtime.shell.programs import base_programs, reads_input
from dra_node_agent.runtime.shell.world import Process, World

from tests.support.cases import each_case
from tests.support.reference import REPOSITORY
from tests.support.waiting import until

# Recorded from coreutils 9.1, grep 3.8, sed 4.9, mawk 1.3.4 and bash 5.2 in the C locale.
_RECORDED = json.loads((REPOSITORY / "tests" / "data" / "gnu_programs.json").read_text())
_PROGRAMS = base_programs(lambda: datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC))
# These programs print or run all of their arguments, or change the shell.
_TAKE_ANYTHING = frozenset({":", "true", "false", "echo", "[", "[[", "test", "eval", "exec"})


class _Terminal:
    """A shell with files in its directory."""

    def __init__(self, files: dict[str, str] | None = None, name: str = "sh") -> None:
        self.out: list[str] = []
        self.err: list[str] = []

        async def report_unknown(process: Process) -> int:
            process.err(f"{process.argv[0]}: unknown\n")
            return 127

        async def sleep(seconds: float) -> None:
            await asyncio.sleep(3600 if seconds > 60 else 0)

        self.files = Files({f"/work/{name}": text for name, text in (files or {}).items()})
        world = World(
            _PROGRAMS, sleep, report_unknown, self.files, directory="/work", reads_input=reads_input
        )
        self.shell = Shell(world, {}, self.out.append, self.err.append, name=name)

    async def run(self, script: str) -> int:
        return await self.shell.run(script)


@each_case(("script", "output", "code"), _RECORDED["cases"])
async def test_programs_print_the_output_of_gnu_programs(script: str, output: str, code: int) -> None:
    terminal = _Terminal(_RECORDED["files"])
    assert (await terminal.run(script), "".join(terminal.out)) == (code, output)
    assert "not simulated" not in "".join(terminal.err)


@each_case(("script", "output", "code"), _RECORDED["scripts"])
async def test_scripts_behave_as_in_bash(script: str, output: str, code: int) -> None:
    terminal = _Terminal(_RECORDED["files"], name="bash")
    async with asyncio.timeout(60):
        assert (await terminal.run(script), "".join(terminal.out)) == (code, output)


@each_case("name", sorted(set(_PROGRAMS) - _TAKE_ANYTHING))
async def test_unknown_options_are_reported_by_every_program(name: str) -> None:
    for option in ("--no-such-option", "-%"):
        terminal = _Terminal(_RECORDED["files"])
        async with asyncio.timeout(60):
            code = await terminal.run(f"{name} {option} a.txt b.txt")
        assert terminal.err, f"{name} {option} is accepted without a word"
        assert code or "not simulated" in "".join(terminal.err)


@each_case(
    ("script", "message"),
    [
        ("grep --include=x one a.txt", "grep: option --include is not simulated\n"),
        ("grep -z one a.txt", "grep: option -z is not simulated\n"),
        ("grep --color=always one a.txt", "grep: --color=always is not simulated\n"),
        ("grep -E '(o)\\1' a.txt", "grep: back-references are not simulated\n"),
        ("sed ':a;ba' a.txt", "sed: command : is not simulated\n"),
        ("sed 's/o/\\U&/' a.txt", "sed: \\U in a replacement is not simulated\n"),
        ("sort -V a.txt", "sort: option -V is not simulated\n"),
        ("cut -z -f1 a.txt", "cut: option -z is not simulated\n"),
        ("wc --files0-from=a.txt", "wc: option --files0-from is not simulated\n"),
        ("date -d yesterday", "date: option -d is not simulated\n"),
        ("ls -t", "ls: option -t is not simulated\n"),
        ("awk -W version", "awk: option -W is not simulated\n"),
        ("awk '{ getline x; print x }' a.txt", "awk: getline is not simulated\n"),
        ("awk '{ print > \"x\" }' a.txt", "awk: print to a file or a program is not simulated\n"),
        ("awk 'function f(x) { return x }'", "awk: function is not simulated\n"),
        ("awk -v RS=x 1 a.txt", "awk: RS other than a newline is not simulated\n"),
        ("find . -exec ls", "find: -exec is not simulated\n"),
        ("cat -A a.txt", "cat: option -A is not simulated\n"),
        ("printf '%q' a", "printf: %q is not simulated\n"),
        ("wait -n", "wait: option -n is not simulated\n"),
        ("export -n A", "export: option -n is not simulated\n"),
        ("kill %1", "kill: %1: arguments must be process IDs; anything else is not simulated\n"),
        ("[ a.txt -nt b.txt ]", "[: -nt is not simulated\n"),
        ("tar czf x a.txt", "tar: option -z is not simulated\n"),
        ("tar --exclude=x -cf y a.txt", "tar: option --exclude is not simulated\n"),
        ("nc -u -l -p 80", "nc: option -u is not simulated\n"),
        ("httpd -c x", "httpd: option -c is not simulated\n"),
    ],
)
async def test_options_that_are_not_simulated_are_reported(script: str, message: str) -> None:
    terminal = _Terminal(_RECORDED["files"])
    assert await terminal.run(script) != 0
    assert ("".join(terminal.out), "".join(terminal.err)) == ("", message)


async def test_a_change_of_file_modes_is_reported_once_as_not_simulated() -> None:
    terminal = _Terminal(_RECORDED["files"])
    assert await terminal.run("chmod +x a.txt; chmod 600 b.txt") == 0
    assert terminal.err == [
        "dralab: chmod: what it does with modes is not simulated, and counts as done (see docs/node-agent.md)\n"
    ]


@pytest.mark.parametrize(
    ("script", "option"),
    [("set -m; set -m", "set: option -m"), ("set -o history", "set: option -o history")]
    + [(f"{shell} -k -c :", f"{shell}: option -k") for shell in ("sh", "bash")],
)
async def test_options_of_shells_without_effect_are_reported_once(script: str, option: str) -> None:
    terminal = _Terminal()
    assert await terminal.run(script) == 0
    assert terminal.err == [
        f"dralab: {option} is not simulated, and counts as done (see docs/node-agent.md)\n"
    ]


@pytest.mark.parametrize(
    "script",
    [
        "grep -z x a.txt 2>/dev/null",
        "x=$(sort -V a.txt 2>&1)",
        "[ a -nt b ] 2> err",
        "chmod 600 a.txt 2>/dev/null",
    ],
)
async def test_scripts_cannot_suppress_reports_of_unsimulated_options(script: str) -> None:
    terminal = _Terminal(_RECORDED["files"])
    terminal.shell.world.log = terminal.err.append
    await terminal.run(f"{script}; {script}")
    (line,) = terminal.err
    assert line.startswith("dralab: ")
    assert "not simulated" in line


async def test_a_script_of_the_real_image_is_an_unknown_program() -> None:
    terminal = _Terminal()
    assert await terminal.run("sh /entrypoint.sh --flag") == 127
    assert terminal.err == ["sh: unknown\n"]


async def test_paths_of_redirections_are_relative_to_the_directory() -> None:
    terminal = _Terminal(_RECORDED["files"])
    assert await terminal.run("cd /work; wc -l < a.txt; echo new > x; cat /work/x; cat < missing") == 1
    assert "".join(terminal.out) == "7\nnew\n"
    assert terminal.err == ["sh: missing: No such file or directory\n"]


async def test_tail_follows_a_file() -> None:
    terminal = _Terminal({"log": "one\ntwo\n"})
    running = asyncio.ensure_future(terminal.run("tail -n 1 -f log"))
    await until(lambda: terminal.out == ["two\n"])
    terminal.files.write("/work/log", "three\n", append=True)
    await until(lambda: terminal.out == ["two\n", "three\n"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("BEGIN { while (1) x++ }", "takes too long"),
        ('BEGIN { x = "a"; while (1) x = x x }', "out of memory"),
        ("BEGIN { while (1) a[n++] }", "out of memory"),
        ("BEGIN { print " + "(" * 500 + "1" + ")" * 500 + " }", "nested too deeply"),
    ],
)
async def test_awk_programs_that_use_too_much_memory_or_time_fail(program: str, message: str) -> None:
    terminal = _Terminal()
    async with asyncio.timeout(60):
        assert await terminal.run(f"awk '{program}'") == 2
    assert message in "".join(terminal.err)


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "a{1,9}{1,9}{1,9}b"])
async def test_no_regular_expression_keeps_the_agent_process_busy(pattern: str) -> None:
    terminal = _Terminal({"a": "a" * 50_000})
    async with asyncio.timeout(60):
        assert await terminal.run(f"grep -E '{pattern}' a") == 1


@each_case(
    ("argv", "reads"),
    [
        (["grep", "x"], True),
        (["grep", "-e", "x"], True),
        (["grep", "-e", "x", "file"], False),
        (["grep", "x", "file"], False),
        (["sed", "-n", "p"], True),
        (["cut", "-d", ":", "-f1"], True),
        (["cat", "-"], True),
        (["tr", "a", "b"], True),
        (["tee", "file"], True),
        (["wc", "-l", "file"], False),
        (["ls"], False),
        (["grep", "--no-such", "x"], False),
    ],
)
def test_programs_that_would_read_standard_input_are_recognized(argv: list[str], reads: bool) -> None:
    assert reads_input(argv) is reads


def test_options_may_be_joined_and_may_follow_operands() -> None:
    grep = _PROGRAMS["grep"]
    assert isinstance(grep, DeclaredProgram)
    given = parse(["x", "-ivA2", "file", "--", "-n"], grep.syntax)
    assert given.options == [("i", ""), ("v", ""), ("A", "2")]
    assert given.operands == ["x", "file", "-n"]
    with pytest.raises(UsageError, match="requires an argument -- 'm'"):
        parse(["x", "-m"], grep.syntax)
