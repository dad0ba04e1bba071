"""`find` in the dialect of GNU, without actions except `-print` and `-delete`."""

import fnmatch
from collections.abc import Callable

from dra_node_agent.runtime.shell.options import UsageError
from dra_node_agent.runtime.shell.world import Process

_Test = Callable[[Process, str, bool], bool]
_TYPES = frozenset("fdlc")


class _Expression:
    """The tests and limits of a command line. All tests must hold."""

    def __init__(self, words: list[str]) -> None:
        self.least, self.most, self.end, self.deletes = 0, 1 << 30, "\n", False
        self._tests: list[_Test] = []
        negated = False
        while words:
            option = words.pop(0)
            if option in ("!", "-not"):
                negated = not negated
                continue
            if option in (
                "-print",
                "-print0",
                "-follow",
                "-L",
                "-P",
                "-H",
                "-depth",
                "-delete",
                "-a",
                "-and",
            ):
                self.end = "\0" if option == "-print0" else self.end
                self.deletes = self.deletes or option == "-delete"
                continue
            test = self._test(option, words)
            if test is not None:
                self._tests.append(_negate(test) if negated else test)
            negated = False

    def _test(self, option: str, words: list[str]) -> _Test | None:
        if option == "-empty":
            return _is_empty
        if option not in ("-name", "-iname", "-path", "-wholename", "-type", "-maxdepth", "-mindepth"):
            raise UsageError(f"{option} is not simulated")
        if not words:
            raise UsageError(f"missing argument to `{option}'")
        value = words.pop(0)
        if option in ("-maxdepth", "-mindepth"):
            if not value.isascii() or not value.isdigit():
                raise UsageError(
                    f"Expected a positive decimal integer argument to {option}, but got ‘{value}’"
                )
            self.least, self.most = (
                (self.least, int(value)) if option == "-maxdepth" else (int(value), self.most)
            )
            return None
        if option == "-type":
            kinds = value.split(",")
            if unknown := [kind for kind in kinds if kind not in _TYPES]:
                raise UsageError(f"-type {unknown[0]} is not simulated")
            return lambda process, path, directory: _kind(process, path, directory) in kinds
        if option in ("-path", "-wholename"):
            return lambda process, path, directory: fnmatch.fnmatchcase(path, value)
        fold = str.lower if option == "-iname" else str
        return lambda process, path, directory: fnmatch.fnmatchcase(
            fold(path.rstrip("/").rpartition("/")[2] or path), fold(value)
        )

    def holds(self, process: Process, path: str, directory: bool) -> bool:
        """Return True if all tests hold for a path."""
        return all(test(process, path, directory) for test in self._tests)


def _negate(test: _Test) -> _Test:
    return lambda process, path, directory: not test(process, path, directory)


def _kind(process: Process, path: str, directory: bool) -> str:
    place = process.absolute(path)
    if place in process.files.links:
        return "l"
    return "d" if directory else "c" if place.startswith("/dev/") else "f"


def _is_empty(process: Process, path: str, directory: bool) -> bool:
    if directory:
        return not process.files.listing(process.absolute(path))
    return not process.files.content.get(process.absolute(path))


async def find(process: Process) -> int:
    """Print the paths at and below the given places that pass the tests."""
    words = list(process.argv[1:])
    while words and words[0] in ("-L", "-P", "-H"):
        words.pop(0)
    roots = []
    while words and not words[0].startswith(("-", "!", "(", ")")):
        roots.append(words.pop(0))
    try:
        expression = _Expression(words)
    except UsageError as error:
        process.complain(f"find: {error}\n")
        return 1
    status = 0
    for root in roots or ["."]:
        found = _tree(process, root)
        if found is None:
            process.err(f"find: ‘{root}’: No such file or directory\n")
            status = 1
            continue
        for path, directory in found:
            below = path[len(root) :].strip("/")
            depth = below.count("/") + 1 if below else 0
            if expression.least <= depth <= expression.most and expression.holds(process, path, directory):
                if expression.deletes:
                    process.files.remove(process.absolute(path))
                else:
                    process.out(f"{path}{expression.end}")
    return status


def _tree(process: Process, root: str) -> list[tuple[str, bool]] | None:
    """Return the path and everything below it, each with whether it is a directory."""
    files, place = process.files, process.absolute(root).rstrip("/") or "/"
    if place in files.content:
        return [(root, False)]
    if files.listing(place) is None:
        return None
    prefix = place.rstrip("/") + "/"
    below: dict[str, bool] = {}
    for path in (*files.content, *files.directories):
        if path.startswith(prefix) and path != prefix:
            parts = path[len(prefix) :].split("/")
            for end in range(1, len(parts)):
                below["/".join(parts[:end])] = True
            below.setdefault("/".join(parts), path in files.directories)
    shown = root.rstrip("/")
    return [(root, True), *((f"{shown}/{path}", folder) for path, folder in sorted(below.items()))]
