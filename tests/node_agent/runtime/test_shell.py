"""Shell scripts in simulated containers."""

import asyncio
from datetime import UTC, datetime

import pytest
from dra_node_agent.runtime.shell.durations import parse_duration
from dra_node_agent.runtime.shell.files import Files
from dra_node_agent.runtime.shell.interpreter import Shell
from dra_node_agent.runtime.shell.programs import base_programs
from dra_node_agent.runtime.shell.syntax import ShellSyntaxError, parse
from dra_node_agent.runtime.shell.world import Process, World

from tests.support.cases import each_case


class _Session:
    def __init__(self, env: dict[str, str] | None = None, name: str = "bash") -> None:
        self.out: list[str] = []
        self.err: list[str] = []
        self.slept: list[float] = []

        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)

        async def report_unknown(process: Process) -> int:
            process.err(f"{process.argv[0]}: not here\n")
            return 127

        programs = base_programs(lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
        self.files = Files({"/etc/motd": "hi\nthere\n"})
        world = World(programs, sleep, report_unknown, self.files, hostname="pod")
        self.shell = Shell(world, env or {}, self.out.append, self.err.append, name=name)

    async def run(self, script: str) -> tuple[int, str]:
        code = await self.shell.run(script)
        return code, "".join(self.out)


@each_case(
    ("script", "output"),
    [
        ("echo hello   world", "hello world\n"),
        ("echo -n a; echo b", "ab\n"),
        ("echo 'single $X' \"double $X\"", "single $X double value\n"),
        ("echo ${X} ${MISSING:-default} ${#X}", "value default 5\n"),
        ("Y=1; echo $Y$Y", "11\n"),
        ("echo $(echo inner) `echo other`", "inner other\n"),
        ("echo $((2 + 3 * 4))", "14\n"),
        ("false || echo rescued; true && echo on", "rescued\non\n"),
        ("for i in a b c; do echo $i; done", "a\nb\nc\n"),
        ("for i in $(seq 3); do echo -n $i; done", "123"),
        ("i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo $i; done", "1\n2\n3\n"),
        ("while true; do echo once; break; done", "once\n"),
        ("for i in 1 2 3; do if [ $i = 2 ]; then continue; fi; echo $i; done", "1\n3\n"),
        ("if [ -f /etc/motd ]; then echo yes; else echo no; fi", "yes\n"),
        ("if false; then echo a; elif true; then echo b; else echo c; fi", "b\n"),
        ("cat /etc/motd | grep there", "there\n"),
        ("cat /etc/motd | wc -l", "2\n"),
        ("echo data > /tmp/f; echo more >> /tmp/f; cat /tmp/f", "data\nmore\n"),
        ("echo gone > /dev/null", ""),
        ("echo direct > /proc/1/fd/1", "direct\n"),
        ("echo err 2>&1 >/dev/null", ""),
        ("cat nothing 2>/dev/null; echo $?", "1\n"),
        ("(cd /tmp; pwd); pwd", "/tmp\n/\n"),
        ("{ echo a; echo b; } | head -n 1", "a\n"),
        ("printf '%s=%d\\n' a 1 b 2", "a=1\nb=2\n"),
        ("date -u +%Y-%m-%d", "2026-01-02\n"),
        ("hostname; whoami", "pod\nroot\n"),
        ("ls /etc", "motd\n"),
        ("test -z ''; echo $?; [ a != a ]; echo $?", "0\n1\n"),
        ("A=b sh -c 'echo $A'; echo \"[$A]\"", "b\n[]\n"),
        ("sh -c 'echo $0 $1' name arg", "name arg\n"),
        ("set -e; set -o pipefail; echo still", "still\n"),
        ("# a comment\necho after", "after\n"),
        ("echo one \\\n two", "one two\n"),
        ("echo a;echo b&wait;echo c", "a\nb\nc\n"),
        ("! false && echo negated", "negated\n"),
        ("export Z=9; sh -c 'echo $Z'; unset Z; echo [$Z]", "9\n[]\n"),
        ("eval 'echo evaluated'", "evaluated\n"),
        ("X=/a/b.txt; echo ${X##*/} ${X%.txt}", "b.txt /a/b\n"),
        ("exec echo last; echo never", "last\n"),
        ("trap 'echo bye' EXIT; echo hi", "hi\nbye\n"),
    ],
)
async def test_scripts_print_their_output(script: str, output: str) -> None:
    session = _Session({"X": "value"})
    code, out = await session.run(script)
    assert (code, out, session.err) == (0, output, [])


@each_case(
    ("script", "code", "message"),
    [
        ("exit 3", 3, ""),
        ("false", 1, ""),
        ("nonsense", 127, "nonsense: not here\n"),
        ("if true; then", 2, "bash: -c: syntax error: unexpected end of file\n"),
        ("echo 'open", 2, "bash: -c: unexpected EOF while looking for matching `''\n"),
        ("echo )", 2, "bash: -c: syntax error near unexpected token `)'\n"),
        ("case x in x) ;; esac", 2, "bash: -c: `case' is not supported in a simulated container\n"),
        ("echo $((1/0))", 2, "bash: -c: 1/0: integer division or modulo by zero\n"),
        ("(" * 5000, 2, "bash: -c: nested too deeply\n"),
    ],
)
async def test_failing_scripts_print_the_message_of_the_shell(script: str, code: int, message: str) -> None:
    session = _Session()
    assert (await session.run(script))[0] == code
    assert "".join(session.err) == message


async def test_export_prints_as_each_shell_does() -> None:
    env = {"B": 'say "hi" $5', "A": "1"}
    assert (await _Session(env).run("export"))[1] == 'declare -x A="1"\ndeclare -x B="say \\"hi\\" \\$5"\n'
    assert (await _Session(env, "sh").run("export"))[1] == "export A=1\nexport B='say \"hi\" $5'\n"


async def test_env_prints_variables_in_the_given_order() -> None:
    assert (await _Session({"B": "2", "A": "1"}).run("env; printenv A"))[1] == "B=2\nA=1\n1\n"


async def test_endless_loops_in_scripts_let_other_tasks_run() -> None:
    session = _Session()
    turns = 0

    async def sleep(seconds: float) -> None:
        nonlocal turns
        turns += 1
        if turns == 3:
            session.shell.traps["TERM"] = "exit 0"
            session.shell.signal("TERM")

    session.shell.world.sleep = sleep
    assert (await session.run("while :; do :; done"))[0] == 0
    assert turns == 3


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("x=aaaaaaaaaaaaaaaa; while true; do x=$x$x; done", "out of memory"),
        ("i=0; while true; do i=$((i+1)); eval v$i=1; done", "out of memory"),
        ("while true; do sleep 9 & done", "fork: Resource temporarily unavailable"),
        ("i=0; while true; do i=$((i+1)); echo > /tmp/$i; done", "/tmp/"),
        ("while true; do seq 9999 >> /tmp/big; done", "/tmp/big: No space left on device"),
    ],
)
async def test_scripts_that_use_too_much_are_stopped(script: str, message: str) -> None:
    session = _Session()

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(3600 if seconds == 9 else 0)

    session.shell.world.sleep = sleep
    code, _ = await session.run(script)
    session.shell.world.end_jobs()
    assert code == 2
    assert message in "".join(session.err)


async def test_endless_output_ends_without_a_reader() -> None:
    assert await _Session().run("while true; do seq 9999; done | head -n 1") == (0, "1\n")
    code, out = await _Session().run("echo $(while true; do seq 9999; done) | wc -c")
    assert (code, int(out) > 1000) == (0, True)


@each_case(
    ("text", "seconds"), [("5", 5), ("1.5", 1.5), ("2m", 120), ("1h", 3600), ("1d", 86400), ("soon", None)]
)
def test_durations_of_sleep_are_parsed(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


async def test_sleep_adds_and_limits_durations() -> None:
    session = _Session()
    await session.run("sleep 1.5; sleep 1m 1s; sleep 999999999999")
    assert session.slept == [1.5, 61.0, 10 * 365 * 86400.0]


@each_case("text", ["for", "while true", "{ echo", "a | ", "a && ", "> ", "if; fi", "done"])
def test_syntax_errors_are_reported(text: str) -> None:
    with pytest.raises(ShellSyntaxError):
        parse(text)
