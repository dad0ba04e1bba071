"""`tar` as `kubectl cp` calls it: archives on standard input and output."""

import io
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dra_node_agent.runtime.shell.files import Files
from dra_node_agent.runtime.shell.syntax import ShellSyntaxError
from dra_node_agent.runtime.shell.world import Process

# A simulated file has no owner, mode or time, so options for these have no effect.
_LETTERS = frozenset("cxtfCvpmoh")
_LONG = {
    "create": "c", "extract": "x", "get": "x", "list": "t", "verbose": "v", "touch": "m", "dereference": "h",
    "no-same-owner": "", "same-owner": "", "no-same-permissions": "", "same-permissions": "p",
    "preserve-permissions": "p", "numeric-owner": "", "no-overwrite-dir": "",
}  # fmt: skip


@dataclass
class _Command:
    """A parsed command line: letters, archive, working directory, and the names to pack."""

    letters: str = ""
    archive: str = "-"
    directory: str = "."
    names: list[str] = field(default_factory=list)
    unknown: str = ""


def extracts(argv: Sequence[str]) -> bool:
    """Return True if a command line of `tar` reads an archive from standard input."""
    command = _parse(argv[1:])
    return command.archive == "-" and not set(command.letters).isdisjoint("xt")


def _parse(words: Sequence[str]) -> _Command:
    made, rest = _Command(), list(words)
    # The letters of the first word need no dash.
    if rest and not rest[0].startswith("-"):
        rest[0] = f"-{rest[0]}"
    while rest:
        word = rest.pop(0)
        if word == "--":
            made.names += rest
            break
        if not word.startswith("-") or word == "-":
            made.names.append(word)
            continue
        if word.startswith("--"):
            _long(made, word, rest)
            continue
        made.letters += word[1:]
        for letter in word[1:]:
            if letter not in _LETTERS:
                made.unknown = made.unknown or f"-{letter}"
            if letter == "f" and rest:
                made.archive = rest.pop(0)
            elif letter == "C" and rest:
                made.directory = rest.pop(0)
    return made


def _long(made: _Command, word: str, rest: list[str]) -> None:
    name, equals, value = word[2:].partition("=")
    if name in ("file", "directory"):
        value = value if equals else rest.pop(0) if rest else ""
        if name == "file":
            made.archive = value
        else:
            made.directory = value
    elif name in _LONG:
        made.letters += _LONG[name]
    else:
        made.unknown = made.unknown or f"--{name}"


async def tar(process: Process) -> int:
    """Run `tar c`, `tar x` or `tar t`."""
    command = _parse(process.argv[1:])
    if command.unknown:
        process.complain(f"tar: option {command.unknown} is not simulated\n")
        return 2
    try:
        if "c" in command.letters:
            return _create(process, command)
        if "x" in command.letters or "t" in command.letters:
            return _extract(process, command)
    except tarfile.TarError:
        process.err("tar: This does not look like a tar archive\n")
        return 2
    except ShellSyntaxError as error:
        process.err(f"tar: {error}\n")
        return 2
    process.err("tar: You must specify one of the '-ctx' options\n")
    return 2


def _create(process: Process, command: _Command) -> int:
    base = process.absolute(command.directory)
    packed = io.BytesIO()
    status = 0
    with tarfile.open(fileobj=packed, mode="w|") as archive:
        for name in command.names:
            path = _join(base, name)
            known = list(_below(process.files, path))
            if not known:
                process.err(f"tar: {name}: No such file or directory\n")
                status = 2
            for found, is_directory in known:
                data = b"" if is_directory else _encode(process.files.content[found])
                entry = tarfile.TarInfo(
                    (name.rstrip("/") + found[len(path.rstrip("/")) :]).lstrip("/") or "."
                )
                entry.size, entry.mode = len(data), 0o755 if is_directory else 0o644
                entry.type = tarfile.DIRTYPE if is_directory else tarfile.REGTYPE
                if "v" in command.letters:
                    shown = f"{entry.name}/\n" if is_directory else f"{entry.name}\n"
                    (process.err if command.archive == "-" else process.out)(shown)
                archive.addfile(entry, io.BytesIO(data))
    text = packed.getvalue().decode(errors="surrogateescape")
    if command.archive == "-":
        process.out(text)
    else:
        process.files.write(process.absolute(command.archive), text, append=False)
    return status


def _below(files: Files, path: str) -> Iterator[tuple[str, bool]]:
    """Yield the path and everything below it, in order, each with whether it is a directory."""
    if path in files.content:
        yield path, False
        return
    if files.listing(path) is None:
        return
    prefix = path.rstrip("/") + "/"
    directories = {known for known in files.directories if known.startswith(prefix)}
    contents = {known for known in files.content if known.startswith(prefix)}
    for known in contents:
        while (known := known.rpartition("/")[0]).startswith(prefix):
            directories.add(known)
    yield path, True
    for found in sorted(directories | contents):
        yield found, found not in contents


def _extract(process: Process, command: _Command) -> int:
    named = process.files.content.get(process.absolute(command.archive), "")
    text = process.stdin if command.archive == "-" else named
    base = process.absolute(command.directory)
    with tarfile.open(fileobj=io.BytesIO(_encode(text)), mode="r|") as archive:
        for entry in archive:
            if "t" in command.letters:
                process.out(f"{entry.name}\n")
                continue
            if "v" in command.letters:
                process.out(f"{entry.name}/\n" if entry.isdir() else f"{entry.name}\n")
            path = _join(base, entry.name.lstrip("/"))
            if ".." in entry.name.split("/"):
                process.err(f"tar: {entry.name}: Member name contains '..'\n")
                return 2
            if entry.isdir():
                process.files.directories.add(path.rstrip("/") or "/")
            elif (source := archive.extractfile(entry)) is not None:
                data = source.read()
                process.files.write(path, data.decode(errors="surrogateescape"), append=False)
    return 0


def _join(base: str, name: str) -> str:
    path = name if name.startswith("/") else f"{base.rstrip('/')}/{name}"
    while "/./" in path:
        path = path.replace("/./", "/")
    return path.removesuffix("/.").rstrip("/") or "/"


def _encode(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
