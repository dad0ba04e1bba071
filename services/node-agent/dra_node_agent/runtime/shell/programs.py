"""The programs that every simulated image has: a shell's builtins and a few of coreutils."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from dra_node_agent.runtime.shell.interpreter import Exit, LoopControl, Process, Program, Shell
from dra_node_agent.runtime.shell.syntax import parse

_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_FOREVER = 10 * 365 * 86400.0
_HOLE = re.compile(r"%-?[0-9]{0,3}(?:\.[0-9]{1,2})?[sdiufxc]")
_FILTERS = frozenset({"cat", "head", "sort", "tail", "wc"})
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\", "\\r": "\r", "\\a": "\a", "\\e": "\x1b", "\\0": "\0"}


def base_programs(now: Callable[[], datetime]) -> Mapping[str, Program]:
    """The programs by name; ``now`` is what ``date`` tells."""

    async def date(process: Process) -> int:
        moment = now()
        if "-u" not in process.argv:
            moment = moment.astimezone(UTC)
        form = next(
            (word[1:] for word in process.argv[1:] if word.startswith("+")), "%a %b %e %H:%M:%S UTC %Y"
        )
        process.out(moment.strftime(form.replace("%s", str(int(moment.timestamp())))) + "\n")
        return 0

    return {**_PROGRAMS, "date": date}


def duration(text: str) -> float | None:
    """The seconds in ``10``, ``1.5``, ``2m`` or ``infinity``; None where it is no duration."""
    if text in ("infinity", "inf"):
        return _FOREVER
    match = _DURATION.fullmatch(text)
    return None if match is None else min(float(match[1]) * _UNITS[match[2]], _FOREVER)


def reads_input(argv: Sequence[str]) -> bool:
    """Whether a command with these words reads its standard input."""
    words = [word for word in argv[1:] if not word.startswith("-") or word == "-"]
    name = argv[0].rpartition("/")[2]
    if name == "grep":
        return len(words) == 1
    return name == "tee" or (name in _FILTERS and not words)


async def _tee(process: Process) -> int:
    append = "-a" in process.argv[1:]
    process.out(process.stdin)
    for name in process.argv[1:]:
        if not name.startswith("-"):
            process.files.write(_absolute(process, name), process.stdin, append=append)
    return 0


async def _sleep(process: Process) -> int:
    total = 0.0
    for word in process.argv[1:]:
        seconds = duration(word)
        if seconds is None:
            process.err(f"sleep: invalid time interval '{word}'\n")
            return 1
        total += seconds
    if len(process.argv) < 2:
        process.err("sleep: missing operand\n")
        return 1
    await process.shell.world.sleep(min(total, _FOREVER))
    return 0


async def _echo(process: Process) -> int:
    words = list(process.argv[1:])
    newline, escapes = True, False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        flags = words.pop(0)
        newline, escapes = newline and "n" not in flags, escapes or "e" in flags
    text = " ".join(words)
    process.out((_unescape(text) if escapes else text) + ("\n" if newline else ""))
    return 0


async def _printf(process: Process) -> int:
    if len(process.argv) < 2:
        process.err("printf: usage: printf format [arguments]\n")
        return 2
    form, values = _unescape(process.argv[1]), list(process.argv[2:])
    holes = len(re.findall(_HOLE, form))
    pieces = []
    while True:
        batch, values = values[:holes], values[holes:]

        def fill(match: re.Match[str], batch: list[str] = batch) -> str:
            value = batch.pop(0) if batch else ""
            kind = match[0][-1]
            try:
                if kind in "diux":
                    return str(match[0].replace("i", "d").replace("u", "d") % int(value or "0", 0))
                if kind == "f":
                    return str(match[0] % float(value or "0"))
            except ValueError:
                return "0"
            return str(match[0] % (value[:1] if kind == "c" else value))

        pieces.append(re.sub(_HOLE, fill, form).replace("%%", "%"))
        if not values or not holes:
            break
    process.out("".join(pieces))
    return 0


async def _export(process: Process) -> int:
    words = [word for word in process.argv[1:] if word != "-p"]
    if not words:
        bash = process.shell.name.endswith("bash")
        for name, value in sorted(process.env.items()):
            process.out(
                f"declare -x {name}={_double_quote(value)}\n"
                if bash
                else f"export {name}={shlex.quote(value) if value else repr('')}\n"
            )
        return 0
    shell = process.shell
    for word in words:
        name, equals, value = word.partition("=")
        shell.assign(name, value if equals else shell.lookup(name) or "")
        shell.env[name] = shell.lookup(name) or ""
        shell.variables.pop(name, None)
    return 0


async def _unset(process: Process) -> int:
    for name in process.argv[1:]:
        process.shell.env.pop(name, None)
        process.shell.variables.pop(name, None)
    return 0


async def _env(process: Process) -> int:
    words = list(process.argv[1:])
    env = dict(process.env)
    while words and "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        env[name] = value
    if words:
        inner = Process(words, env, process.out, process.err, process.stdin, process.shell)
        world = process.shell.world
        return await world.programs.get(words[0].rpartition("/")[2], world.fallback)(inner)
    for name, value in env.items():
        process.out(f"{name}={value}\n")
    return 0


async def _printenv(process: Process) -> int:
    if len(process.argv) < 2:
        return await _env(process)
    value = process.env.get(process.argv[1])
    if value is None:
        return 1
    process.out(value + "\n")
    return 0


async def _set(process: Process) -> int:
    if len(process.argv) < 2:
        everything = {**process.env, **process.shell.variables}
        for name, value in sorted(everything.items()):
            process.out(f"{name}={shlex.quote(value)}\n")
    return 0


async def _exit(process: Process) -> int:
    text = process.argv[1] if len(process.argv) > 1 else str(process.shell.status)
    raise Exit(int(text) & 0xFF if text.lstrip("-").isdigit() else 2)


async def _trap(process: Process) -> int:
    words = process.argv[1:]
    if len(words) >= 2:
        for name in words[1:]:
            signal = {"15": "TERM", "2": "INT", "0": "EXIT"}.get(name, name.upper().removeprefix("SIG"))
            if words[0] == "-":
                process.shell.traps.pop(signal, None)
            else:
                process.shell.traps[signal] = words[0]
    return 0


async def _wait(process: Process) -> int:
    return await process.shell.wait()


async def _exec(process: Process) -> int:
    if len(process.argv) < 2:
        return 0
    world = process.shell.world
    inner = Process(process.argv[1:], process.env, process.out, process.err, process.stdin, process.shell)
    raise Exit(await world.programs.get(inner.argv[0].rpartition("/")[2], world.fallback)(inner))


async def _eval(process: Process) -> int:
    return await process.shell.execute(parse(" ".join(process.argv[1:])))


def _loop_control(again: bool) -> Program:
    async def program(process: Process) -> int:
        text = process.argv[1] if len(process.argv) > 1 else "1"
        raise LoopControl(int(text) if text.isdigit() else 1, again)

    return program


def _constant(status: int) -> Program:
    async def program(_: Process) -> int:
        return status

    return program


def _prints(text: Callable[[Process], str]) -> Program:
    async def program(process: Process) -> int:
        process.out(text(process) + "\n")
        return 0

    return program


async def _cd(process: Process) -> int:
    process.shell.directory = _absolute(process, process.argv[1] if len(process.argv) > 1 else "/root")
    return 0


async def _cat(process: Process) -> int:
    names = [word for word in process.argv[1:] if not word.startswith("-")]
    if not names:
        process.out(process.stdin)
    status = 0
    for name in names:
        content = process.files.content.get(_absolute(process, name))
        if content is None:
            process.err(f"cat: {name}: No such file or directory\n")
            status = 1
        else:
            process.out(content)
    return status


async def _ls(process: Process) -> int:
    names = [word for word in process.argv[1:] if not word.startswith("-")] or [process.shell.directory]
    long = any("l" in word for word in process.argv[1:] if word.startswith("-"))
    status = 0
    for name in names:
        path = _absolute(process, name)
        if path in process.files.content:
            entries, folder = [name], ""
        else:
            found = process.files.listing(path)
            if found is None:
                process.err(f"ls: cannot access '{name}': No such file or directory\n")
                status = 2
                continue
            entries, folder = found, path.rstrip("/") + "/"
        if len(names) > 1 and folder:
            process.out(f"{name}:\n")
        for entry in entries:
            kind = "c" if (folder + entry).startswith("/dev/") else "-"
            process.out(f"{kind}rw-rw-rw- 1 root root 0 {entry}\n" if long else f"{entry}\n")
    return status


async def _touch(process: Process) -> int:
    for name in process.argv[1:]:
        process.files.write(_absolute(process, name), "", append=True)
    return 0


async def _mkdir(process: Process) -> int:
    for name in process.argv[1:]:
        if not name.startswith("-"):
            process.files.directories.add(_absolute(process, name).rstrip("/"))
    return 0


async def _rm(process: Process) -> int:
    force = any(word.startswith("-") and "f" in word for word in process.argv[1:])
    status = 0
    for name in process.argv[1:]:
        if not name.startswith("-"):
            path = _absolute(process, name)
            gone = [known for known in process.files.content if known == path or known.startswith(path + "/")]
            for known in gone:
                del process.files.content[known]
            process.files.directories.discard(path)
            if not gone and not force:
                process.err(f"rm: cannot remove '{name}': No such file or directory\n")
                status = 1
    return status


async def _grep(process: Process) -> int:
    words = [word for word in process.argv[1:] if not word.startswith("-")]
    flags = "".join(word[1:] for word in process.argv[1:] if word.startswith("-"))
    if not words:
        return 2
    texts = [process.files.content.get(_absolute(process, name), "") for name in words[1:]] or [process.stdin]
    matches = _matcher(words[0], "i" in flags)
    lines = [line for text in texts for line in text.splitlines() if matches(line) != ("v" in flags)]
    if "c" in flags:
        process.out(f"{len(lines)}\n")
    elif "q" not in flags:
        process.out("".join(f"{line}\n" for line in lines))
    return 0 if lines else 1


def _matcher(pattern: str, ignore_case: bool) -> Callable[[str], bool]:
    # Plain text with anchors: a pattern from a pod must not keep this process busy.
    fold = str.lower if ignore_case else str
    start, end = pattern.startswith("^"), pattern.endswith("$")
    text = fold(pattern[start : len(pattern) - end])
    if start and end:
        return lambda line: fold(line) == text
    if start:
        return lambda line: fold(line).startswith(text)
    if end:
        return lambda line: fold(line).endswith(text)
    return lambda line: text in fold(line)


def _lines(select: Callable[[list[str], int], list[str]]) -> Program:
    async def program(process: Process) -> int:
        words = list(process.argv[1:])
        count = 10
        names: list[str] = []
        while words:
            word = words.pop(0)
            if word == "-n" and words:
                word = "-" + words.pop(0)
            if word.startswith("-"):
                digits = word.lstrip("-n")
                count = int(digits) if digits.isdigit() else count
            else:
                names.append(word)
        text = process.files.content.get(_absolute(process, names[0]), "") if names else process.stdin
        process.out("".join(f"{line}\n" for line in select(text.splitlines(), count)))
        return 0

    return program


async def _wc(process: Process) -> int:
    names = [word for word in process.argv[1:] if not word.startswith("-")]
    text = process.files.content.get(_absolute(process, names[0]), "") if names else process.stdin
    counts = {"l": text.count("\n"), "w": len(text.split()), "c": len(text)}
    wanted = [key for key in "lwc" if any(key in word for word in process.argv[1:] if word.startswith("-"))]
    process.out(" ".join(str(counts[key]) for key in wanted or "lwc") + "\n")
    return 0


async def _seq(process: Process) -> int:
    numbers = [int(word) for word in process.argv[1:] if word.lstrip("-").isdigit()]
    if not 1 <= len(numbers) <= 3:
        process.err("seq: missing operand\n")
        return 1
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] or 1 if len(numbers) > 2 else 1
    last = numbers[-1]
    last = min(last, first + 100_000 * step) if step > 0 else max(last, first + 100_000 * step)
    process.out("".join(f"{number}\n" for number in range(first, last + (1 if step > 0 else -1), step)))
    return 0


async def _test(process: Process) -> int:
    words = list(process.argv[1:])
    if process.argv[0] in ("[", "[["):
        if not words or words[-1] not in ("]", "]]"):
            process.err("[: missing `]'\n")
            return 2
        words.pop()
    return 0 if _holds(process, words) else 1


def _holds(process: Process, words: list[str]) -> bool:
    for joint, combine in (("-o", any), ("||", any), ("-a", all), ("&&", all)):
        if joint in words:
            at = words.index(joint)
            return combine((_holds(process, words[:at]), _holds(process, words[at + 1 :])))
    match words:
        case []:
            return False
        case ["!", *rest]:
            return not _holds(process, rest)
        case [value]:
            return bool(value)
        case ["-z", value]:
            return not value
        case ["-n", value]:
            return bool(value)
        case ["-e" | "-f" | "-s" | "-r" | "-c" | "-x", path]:
            return _absolute(process, path) in process.files.content
        case ["-d", path]:
            return process.files.listing(_absolute(process, path)) is not None
        case [left, "=" | "==", right]:
            return left == right
        case [left, "!=", right]:
            return left != right
        case [left, operator, right]:
            return _compare(left, operator, right)
    return False


def _compare(left: str, operator: str, right: str) -> bool:
    try:
        difference = int(left) - int(right)
    except ValueError:
        return False
    return {
        "-eq": difference == 0,
        "-ne": difference != 0,
        "-lt": difference < 0,
        "-le": difference <= 0,
        "-gt": difference > 0,
        "-ge": difference >= 0,
    }.get(operator, False)


async def run_shell(process: Process) -> int:
    """``sh -c script`` and the like, as a child of the calling shell."""
    script, name, arguments = shell_script(process.argv, process.files.content)
    if script is None:
        return 0
    shell = process.shell
    child = Shell(shell.world, process.env, process.out, process.err, name=name, arguments=arguments)
    return await child.run(script)


def shell_script(argv: Sequence[str], files: Mapping[str, str]) -> tuple[str | None, str, Sequence[str]]:
    """The script that a shell's command line names, what the shell calls itself, and the arguments."""
    name = argv[0].rpartition("/")[2]
    words = list(argv[1:])
    takes_script = False
    while words and words[0].startswith(("-", "+")) and len(words[0]) > 1:
        flag = words.pop(0)
        if not flag.startswith("--") and "c" in flag:
            takes_script = True
        if flag in ("-o", "+o") and words:
            words.pop(0)
    if not words:
        return None, name, ()
    if takes_script:
        return words[0], words[1] if len(words) > 1 else name, words[2:]
    return files.get(words[0]), words[0], words[1:]


def _absolute(process: Process, name: str) -> str:
    path = name if name.startswith("/") else f"{process.shell.directory.rstrip('/')}/{name}"
    return path.removesuffix("/") or "/"


def _unescape(text: str) -> str:
    return re.sub(r"\\[ntrae0\\]", lambda match: _ESCAPES[match[0]], text)


def _double_quote(value: str) -> str:
    return '"' + re.sub(r'([\\"$`])', r"\\\1", value) + '"'


_PROGRAMS: Mapping[str, Program] = {
    ":": _constant(0),
    "true": _constant(0),
    "false": _constant(1),
    "sync": _constant(0),
    "kill": _constant(0),
    "chmod": _constant(0),
    "sleep": _sleep,
    "echo": _echo,
    "printf": _printf,
    "export": _export,
    "unset": _unset,
    "env": _env,
    "printenv": _printenv,
    "set": _set,
    "exit": _exit,
    "return": _exit,
    "trap": _trap,
    "wait": _wait,
    "exec": _exec,
    "eval": _eval,
    "break": _loop_control(False),
    "continue": _loop_control(True),
    "cd": _cd,
    "pwd": _prints(lambda process: process.shell.directory),
    "hostname": _prints(lambda process: process.shell.world.hostname),
    "whoami": _prints(lambda _: "root"),
    "id": _prints(lambda _: "uid=0(root) gid=0(root) groups=0(root)"),
    "uname": _prints(
        lambda process: "Linux" if len(process.argv) < 2 else "Linux dralab 6.1.0 x86_64 GNU/Linux"
    ),
    "cat": _cat,
    "tee": _tee,
    "ls": _ls,
    "touch": _touch,
    "mkdir": _mkdir,
    "rm": _rm,
    "grep": _grep,
    "head": _lines(lambda lines, count: lines[:count]),
    "tail": _lines(lambda lines, count: lines[-count:] if count else []),
    "sort": _lines(lambda lines, _: sorted(lines)),
    "wc": _wc,
    "seq": _seq,
    "test": _test,
    "[": _test,
    "[[": _test,
    "sh": run_shell,
    "bash": run_shell,
    "dash": run_shell,
    "ash": run_shell,
}
