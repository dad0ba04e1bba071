"""The files of a simulated container."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping

from dra_node_agent.runtime.shell.syntax import ShellSyntaxError

# Limits of the number and size of files, because simulated containers share the agent's process.
_DISK_SIZE = 4 << 20
_MOST_FILES = 4096


class Files:
    """The files that the script of a container created or got: texts by path."""

    def __init__(self, content: Mapping[str, str] | None = None) -> None:
        self.content = dict(content or {})
        #: The targets of symbolic links by path. The text of the target is in ``content`` as well.
        self.links: dict[str, str] = {}
        self._left = _DISK_SIZE
        self._watchers: tuple[asyncio.Event, ...] = ()
        self.directories = {"/", "/tmp", "/dev", "/etc", "/proc", "/root", "/var", "/home", "/usr", "/bin"}

    def write(self, path: str, text: str, *, append: bool) -> None:
        """Write a file.

        Raises:
            ShellSyntaxError: the disk is full.
        """
        old = self.content.get(path, "")
        self._left += 0 if append else len(old)
        self._left -= len(text)
        if self._left < 0 or (path not in self.content and len(self.content) >= _MOST_FILES):
            raise ShellSyntaxError(f"{path}: No space left on device")
        self.content[path] = old + text if append else text
        for watcher in self._watchers:
            watcher.set()

    def remove(self, path: str) -> None:
        """Remove a file or link, or a directory with everything below it."""
        for known in [known for known in self.content if known == path or known.startswith(f"{path}/")]:
            self._left = min(self._left + len(self.content.pop(known)), _DISK_SIZE)
            self.links.pop(known, None)
        self.directories -= {
            known for known in self.directories if known == path or known.startswith(f"{path}/")
        }

    @contextlib.contextmanager
    def changes(self) -> Iterator[asyncio.Event]:
        """Return an event that is set when a file is written within the context."""
        changed = asyncio.Event()
        self._watchers += (changed,)
        try:
            yield changed
        finally:
            self._watchers = tuple(known for known in self._watchers if known is not changed)

    def listing(self, directory: str) -> list[str] | None:
        """Return the names in a directory; None if there is no such directory."""
        prefix = directory.rstrip("/") + "/"
        names = {
            path[len(prefix) :].partition("/")[0]
            for path in (*self.content, *self.directories)
            if path.startswith(prefix) and path != prefix
        } - {""}
        known = directory.rstrip("/") in self.directories or directory == "/"
        return sorted(names) if names or known else None
