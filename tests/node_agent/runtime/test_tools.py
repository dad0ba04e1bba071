"""Programs other than coreutils, called from scripts."""

from dra_node_agent.runtime.shell.files import Files
from dra_node_agent.runtime.shell.interpreter import Shell
from dra_node_agent.runtime.shell.programs import base_programs
from dra_node_agent.runtime.shell.world import Process, World
from dra_shared.clock import FakeClock

from tests.support.cases import each_case


async def _run(script: str) -> tuple[str, int]:
    pieces: list[str] = []
    clock = FakeClock()

    async def exit_127(process: Process) -> int:
        return 127

    async def sleep(seconds: float) -> None:
        return

    files = Files({"/dev/nvidia0": "", "/dev/nvidiactl": "", "/etc/a/b.txt": "one\ntwo\n", "/etc/c.txt": ""})
    world = World(base_programs(clock.now), sleep, exit_127, files)
    code = await Shell(world, {}, pieces.append, pieces.append).run(script)
    return "".join(pieces), code


@each_case(
    ("script", "printed"),
    [
        ("find /dev -name 'nvidia*'", "/dev/nvidia0\n/dev/nvidiactl\n"),
        ("find /etc -type f -name '*.txt'", "/etc/a/b.txt\n/etc/c.txt\n"),
        ("find /etc -maxdepth 1 -type d", "/etc\n/etc/a\n"),
        ("cd /etc; find .", ".\n./a\n./a/b.txt\n./c.txt\n"),
        ("find /none", "find: ‘/none’: No such file or directory\n"),
        ("echo 'a b c' | awk '{print $2, $NF}'", "b c\n"),
        ("echo 'a:b' | awk -F: '{print $2 \"-\" $1}'", "b-a\n"),
        ("cat /etc/a/b.txt | awk 'NR==2 {print NR, $0}'", "2 two\n"),
        ("awk '/on/' /etc/a/b.txt", "one\n"),
        ("awk 'BEGIN { x } END { print NR }' /etc/a/b.txt", "2\n"),
        ("echo a,b,c,d | cut -d, -f2-3", "b,c\n"),
        ("echo abcdef | cut -c1-3,5", "abce\n"),
        ("echo abc | tr a-z A-Z", "ABC\n"),
        ("echo a b | tr -d ' '", "ab\n"),
        ("echo one two | sed 's/o/0/g'", "0ne tw0\n"),
        ("echo one | sed 's/^o/O/'", "One\n"),
        ("printf 'a\\na\\nb\\n' | uniq -c", "      2 a\n      1 b\n"),
        ("basename /etc/a/b.txt .txt; dirname /etc/a/b.txt", "b\n/etc/a\n"),
        ("which find none || command -v awk", "/usr/bin/find\n/usr/bin/awk\n"),
        ("timeout 5 echo x; echo $?", "x\n0\n"),
        ("command echo x", "x\n"),
    ],
)
async def test_tools_print_their_output(script: str, printed: str) -> None:
    assert (await _run(script))[0] == printed
