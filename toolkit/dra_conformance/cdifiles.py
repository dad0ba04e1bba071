"""The node's CDI directory: what is in it, and how files get there."""

import asyncio
import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dra_driverkit.cdi import Spec, SpecError, read_spec
from dra_shared.yamltext import YamlError, load

_SUFFIXES = (".yaml", ".json")
_IN_MODIFY = 0x2
_HEADER = struct.Struct("iIII")


class CdiFiles:
    """Within its context it notes which spec files are written to in place."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.written_in_place: set[str] = set()
        self._descriptor = -1
        directory.mkdir(parents=True, exist_ok=True)

    async def __aenter__(self) -> Self:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor >= 0:
            libc.inotify_add_watch(self._descriptor, os.fsencode(self.directory), _IN_MODIFY)
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)

    def names(self) -> set[str]:
        """The spec files."""
        return {path.name for path in self.directory.iterdir() if _is_spec(path.name)}

    def others(self) -> set[str]:
        """What else lies there."""
        return {path.name for path in self.directory.iterdir() if not _is_spec(path.name)}

    def content(self) -> dict[str, bytes]:
        """The spec files' bytes, by name."""
        found = {}
        for name in self.names():
            try:
                found[name] = (self.directory / name).read_bytes()
            except FileNotFoundError:
                continue
        return found

    def documents(self) -> dict[str, Any]:
        """What the spec files say, by name; None for one that is no YAML or JSON."""
        found: dict[str, Any] = {}
        for name, data in self.content().items():
            try:
                found[name] = load(data).value
            except YamlError:
                found[name] = None
        return found

    def specs(self) -> dict[str, Spec | SpecError]:
        """The spec files by name, or what is wrong with each."""
        found: dict[str, Spec | SpecError] = {}
        for name in self.names():
            try:
                found[name] = read_spec(self.directory / name)
            except SpecError as error:
                found[name] = error
            except FileNotFoundError:
                continue
        return found

    def defined(self) -> list[str]:
        """The qualified names of all devices in all files, one that is defined twice twice."""
        return [
            f"{document.get('kind')}={device.get('name')}"
            for document in self.documents().values()
            if isinstance(document, dict)
            for device in document.get("devices") or ()
            if isinstance(device, dict)
        ]

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Those of the qualified names that no file defines."""
        defined = set(self.defined())
        return [one for one in ids if one not in defined]

    def _read(self) -> None:
        data = os.read(self._descriptor, 1 << 16)
        offset = 0
        while offset < len(data):
            _, _, _, length = _HEADER.unpack_from(data, offset)
            name = data[offset + _HEADER.size : offset + _HEADER.size + length].rstrip(b"\0").decode()
            offset += _HEADER.size + length
            if _is_spec(name):
                self.written_in_place.add(name)


def _is_spec(name: str) -> bool:
    return name.endswith(_SUFFIXES) and not name.startswith(".")
