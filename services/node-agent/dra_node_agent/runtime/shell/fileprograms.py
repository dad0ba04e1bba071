"""Programs of coreutils that read and write files: `cat`, `ls`, `rm`, `grep`, `tail` and the like."""

import posixpath
import re
from collections.abc import Callable, Mapping

from dra_node_agent.runtime.shell.durations import FOREVER
from dra_node_agent.runtime.shell.world import Process, Program

_FOLLOWS = re.compile(r"-[a-zA-Z]*[fF]|--follow(=.*)?")


async def _cat(process: Process) -> int:
    names = [word for word in process.argv[1:] if not word.startswith("-")]
    if not names:
        process.out(process.stdin)
    status = 0
    for name in names:
        content = process.files.content.get(process.absolute(name))
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
        path = process.absolute(name)
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
            process.out(_long(process, folder + entry, entry) if long else f"{entry}\n")
    return status


def _long(process: Process, path: str, name: str) -> str:
    target = process.files.links.get(process.absolute(path))
    if target is not None:
        return f"lrwxrwxrwx 1 root root {len(target)} {name} -> {target}\n"
    kind = "c" if path.startswith("/dev/") else "-"
    return f"{kind}rw-rw-rw- 1 root root 0 {name}\n"


async def _readlink(process: Process) -> int:
    status = 0
    for name in process.argv[1:]:
        if name.startswith("-"):
            continue
        path = process.absolute(name)
        target = process.files.links.get(path)
        if "-f" in process.argv:
            process.out(f"{posixpath.normpath(posixpath.join(posixpath.dirname(path), target or path))}\n")
        elif target is None:
            status = 1
        else:
            process.out(f"{target}\n")
    return status


async def _touch(process: Process) -> int:
    for name in process.argv[1:]:
        process.files.write(process.absolute(name), "", append=True)
    return 0


async def _mkdir(process: Process) -> int:
    for name in process.argv[1:]:
        if not name.startswith("-"):
            process.files.directories.add(process.absolute(name).rstrip("/"))
    return 0


async def _rm(process: Process) -> int:
    force = any(word.startswith("-") and "f" in word for word in process.argv[1:])
    status = 0
    for name in process.argv[1:]:
        if not name.startswith("-"):
            path = process.absolute(name)
            gone = [known for known in process.files.content if known == path or known.startswith(path + "/")]
            for known in gone:
                del process.files.content[known]
                process.files.links.pop(known, None)
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
    texts = [process.files.content.get(process.absolute(name), "") for name in words[1:]] or [process.stdin]
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
        text = process.files.content.get(process.absolute(names[0]), "") if names else process.stdin
        process.out("".join(f"{line}\n" for line in select(text.splitlines(), count)))
        return 0

    return program


_last_lines = _lines(lambda lines, count: lines[-count:] if count else [])


async def _tail(process: Process) -> int:
    """With ``-f`` it shows what there is and waits, as files change only by the script itself."""
    follows = [word for word in process.argv[1:] if _FOLLOWS.fullmatch(word)]
    kept = [word for word in process.argv if word not in follows]
    inner = Process(kept, process.env, process.out, process.err, process.stdin, process.shell)
    status = await _last_lines(inner)
    if follows:
        await process.shell.world.sleep(FOREVER)
    return status


async def _wc(process: Process) -> int:
    names = [word for word in process.argv[1:] if not word.startswith("-")]
    text = process.files.content.get(process.absolute(names[0]), "") if names else process.stdin
    counts = {"l": text.count("\n"), "w": len(text.split()), "c": len(text)}
    wanted = [key for key in "lwc" if any(key in word for word in process.argv[1:] if word.startswith("-"))]
    process.out(" ".join(str(counts[key]) for key in wanted or "lwc") + "\n")
    return 0


async def _tee(process: Process) -> int:
    append = "-a" in process.argv[1:]
    process.out(process.stdin)
    for name in process.argv[1:]:
        if not name.startswith("-"):
            process.files.write(process.absolute(name), process.stdin, append=append)
    return 0


#: By name.
FILE_PROGRAMS: Mapping[str, Program] = {
    "cat": _cat,
    "grep": _grep,
    "head": _lines(lambda lines, count: lines[:count]),
    "ls": _ls,
    "readlink": _readlink,
    "mkdir": _mkdir,
    "rm": _rm,
    "sort": _lines(lambda lines, _: sorted(lines)),
    "tail": _tail,
    "tee": _tee,
    "touch": _touch,
    "wc": _wc,
}
