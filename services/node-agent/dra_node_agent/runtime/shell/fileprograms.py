"""Programs of coreutils that create, show and remove files: `cat`, `ls`, `rm`, `mkdir` and the like."""

import posixpath
import re
from collections.abc import Mapping

from dra_node_agent.runtime.shell.files import Files
from dra_node_agent.runtime.shell.options import Given, Syntax, UsageError, declare, keep_ends, read
from dra_node_agent.runtime.shell.patterns import encode
from dra_node_agent.runtime.shell.world import Process, Program

_MODE = re.compile(r"[0-7]{1,4}|(?:[ugoa]*[-+=][rwxXst]*)(?:,[ugoa]*[-+=][rwxXst]*)*")
_MOST_LINKS = 40


@declare(
    Syntax(
        flags="nbEsTuA", long={"number": "n", "number-nonblank": "b", "squeeze-blank": "s", "show-ends": "E"}
    )
)
async def _cat(process: Process, given: Given) -> int:
    if given.last("TA"):
        raise UsageError(f"option -{given.last('TA')} is not simulated")
    texts = [read(process, name) for name in given.operands or ["-"]]
    content = "".join(text for text in texts if text is not None)
    if given.last("nbEs"):
        _cat_lines(process, given, content)
    else:
        process.out(content)
    return 1 if None in texts else 0


def _cat_lines(process: Process, given: Given, content: str) -> None:
    number, blank = 0, False
    for line in keep_ends(content):
        was_blank, blank = blank, line == "\n"
        if "s" in given and blank and was_blank:
            continue
        prefix = ""
        if ("b" in given and not blank) or ("n" in given and "b" not in given):
            number += 1
            prefix = f"{number:>6}\t"
        text = line.removesuffix("\n")
        process.out(prefix + text + ("$" if "E" in given and text != line else "") + line[len(text) :])


def _is_directory(files: Files, path: str) -> bool:
    return path not in files.content and files.listing(path) is not None


def _is_device(path: str) -> bool:
    return path.startswith("/dev/") and not path.startswith(("/dev/shm/", "/dev/mqueue/"))


@declare(
    Syntax(
        flags="laA1drpF",
        status=2,
        optional="\1",
        long={"all": "a", "almost-all": "A", "directory": "d", "reverse": "r", "color": "\1"},
    )
)
async def _ls(process: Process, given: Given) -> int:
    names = sorted(given.operands) or ["."]
    status = 0
    alone: list[tuple[str, str]] = []
    folders: list[tuple[str, str]] = []
    for name in names:
        path = process.absolute(name)
        if _is_directory(process.files, path):
            (alone if "d" in given else folders).append((name, path))
        elif path in process.files.content:
            alone.append((name, path))
        else:
            process.err(f"ls: cannot access '{name}': No such file or directory\n")
            status = 2
    order = -1 if "r" in given else 1
    for name, path in alone[::order]:
        process.out(_entry(process, given, path, name))
    for name, path in folders[::order]:
        if len(names) > 1:
            process.out(f"{name}:\n" if not alone and name == folders[::order][0][0] else f"\n{name}:\n")
        found = process.files.listing(path) or []
        shown = [entry for entry in found if given.last("aA") or not entry.startswith(".")]
        if "a" in given:
            shown = [".", "..", *shown]
        for entry in shown[::order]:
            process.out(_entry(process, given, posixpath.normpath(posixpath.join(path, entry)), entry))
    return status


def _entry(process: Process, given: Given, path: str, name: str) -> str:
    files = process.files
    target = files.links.get(path)
    directory = _is_directory(files, path)
    if given.last("pF"):
        name += "/" if directory else "@" if target is not None and "F" in given and "l" not in given else ""
    if "l" not in given:
        return f"{name}\n"
    if target is not None:
        return f"lrwxrwxrwx 1 root root {len(target)} {name} -> {target}\n"
    if directory:
        return f"drwxr-xr-x 2 root root 4096 {name}\n"
    kind = "c" if _is_device(path) else "-"
    return f"{kind}rw-rw-rw- 1 root root {len(encode(files.content.get(path, '')))} {name}\n"


@declare(
    Syntax(
        flags="femnqs",
        long={
            "canonicalize": "f",
            "canonicalize-existing": "e",
            "canonicalize-missing": "m",
            "no-newline": "n",
        },
    )
)
async def _readlink(process: Process, given: Given) -> int:
    if not given.operands:
        raise UsageError("missing operand")
    status = 0
    for name in given.operands:
        if given.last("fem"):
            shown = _resolve(process, process.absolute(name))
            exists = shown is not None and (
                shown in process.files.content or process.files.listing(shown) is not None
            )
            if shown is None or ("e" in given and not exists):
                status = 1
                continue
        else:
            target = process.files.links.get(process.absolute(name))
            if target is None:
                status = 1
                continue
            shown = target
        process.out(shown + ("" if "n" in given and len(given.operands) == 1 else "\n"))
    return status


def _resolve(process: Process, path: str) -> str | None:
    """Return the path without symbolic links; None if they form a circle."""
    links = process.files.links
    for _ in range(_MOST_LINKS):
        parts = path.split("/")
        places = ["/".join(parts[:end]) for end in range(2, len(parts) + 1)]
        link = next((place for place in places if place in links), None)
        if link is None:
            return path
        target = posixpath.join(posixpath.dirname(link), links[link])
        path = posixpath.normpath(target + path[len(link) :])
    return None


@declare(
    Syntax(
        # Files have no times here.
        flags="acm",
        valued="drt",
        long={"no-create": "c", "date": "d", "reference": "r"},
    )
)
async def _touch(process: Process, given: Given) -> int:
    if not given.operands:
        raise UsageError("missing file operand")
    if given.last("drt"):
        process.notice("what it does with times is")
    for name in given.operands:
        path = process.absolute(name)
        if not _is_directory(process.files, path) and not (
            "c" in given and path not in process.files.content
        ):
            process.files.write(path, "", append=True)
    return 0


@declare(Syntax(flags="pv", valued="m", long={"parents": "p", "mode": "m", "verbose": "v"}))
async def _mkdir(process: Process, given: Given) -> int:
    if not given.operands:
        raise UsageError("missing operand")
    if given.values("m"):
        process.notice("what it does with modes is")
    status = 0
    for name in given.operands:
        path = process.absolute(name).rstrip("/") or "/"
        exists = process.files.listing(path) is not None
        if path in process.files.content or (exists and "p" not in given):
            process.err(f"mkdir: cannot create directory ‘{name}’: File exists\n")
            status = 1
            continue
        if "v" in given and not exists:
            process.out(f"mkdir: created directory '{name}'\n")
        process.files.directories.add(path)
    return status


@declare(Syntax(flags="rRfdv", long={"recursive": "r", "force": "f", "dir": "d", "verbose": "v"}))
async def _rm(process: Process, given: Given) -> int:
    if not given.operands and "f" not in given:
        raise UsageError("missing operand")
    status = 0
    for name in given.operands:
        path = process.absolute(name).rstrip("/")
        if problem := _cannot_remove(process.files, path, given):
            if problem != "No such file or directory" or "f" not in given:
                process.err(f"rm: cannot remove '{name}': {problem}\n")
                status = 1
            continue
        directory = _is_directory(process.files, path)
        process.files.remove(path)
        if "v" in given:
            process.out(f"removed {'directory ' if directory else ''}'{name}'\n")
    return status


def _cannot_remove(files: Files, path: str, given: Given) -> str:
    if path in files.content:
        return ""
    found = files.listing(path)
    if found is None:
        return "No such file or directory"
    if given.last("rR") or ("d" in given and not found):
        return ""
    return "Directory not empty" if "d" in given else "Is a directory"


@declare(Syntax(flags="aip", leading=1 << 30, long={"append": "a", "ignore-interrupts": "i"}))
async def _tee(process: Process, given: Given) -> int:
    process.out(process.stdin)
    for name in given.operands:
        process.files.write(process.absolute(name), process.stdin, append="a" in given)
    return 0


@declare(
    Syntax(flags="Rcfv", long={"recursive": "R", "changes": "c", "silent": "f", "quiet": "f", "verbose": "v"})
)
async def _chmod(process: Process, given: Given) -> int:
    """Check the arguments, and change nothing: files have no modes here."""
    if len(given.operands) < 2:
        raise UsageError("missing operand")
    mode, *names = given.operands
    if not _MODE.fullmatch(mode):
        raise UsageError(f"invalid mode: ‘{mode}’")
    status = 0
    for name in names:
        path = process.absolute(name)
        if path not in process.files.content and process.files.listing(path) is None:
            if "f" not in given:
                process.err(f"chmod: cannot access '{name}': No such file or directory\n")
            status = 1
    process.notice("what it does with modes is")
    return status


#: By name.
FILE_PROGRAMS: Mapping[str, Program] = {
    "cat": _cat,
    "chmod": _chmod,
    "ls": _ls,
    "readlink": _readlink,
    "mkdir": _mkdir,
    "rm": _rm,
    "tee": _tee,
    "touch": _touch,
}
