"""The node's CDI directory: the files in it, and whether they are written atomically."""

import asyncio
import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from dra_driverkit.cdi import Spec, SpecError, read_spec
from dra_shared.yamltext import YamlError, load

_SUFFIXES = (".yaml", ".json")
_IN_MODIFY = 0x2
_HEADER = struct.Struct("iIII")


class CdiFiles:
    """The CDI directory. Within its context it records the spec files that are written in place."""

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

    async def __aexit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)

    def names(self) -> set[str]:
        """Return the names of the spec files."""
        return {path.name for path in self.directory.iterdir() if _is_spec(path.name)}

    def others(self) -> set[str]:
        """Return the names of files that are not spec files."""
        return {path.name for path in self.directory.iterdir() if not _is_spec(path.name)}

    def writable_by_all(self, names: Iterable[str]) -> list[str]:
        """Return those of the files that every user may change."""
        return [name for name in sorted(names) if (self.directory / name).stat().st_mode & stat.S_IWOTH]

    def content(self) -> dict[str, bytes]:
        """Return the bytes of each spec file, by name."""
        found = {}
        for name in self.names():
            try:
                found[name] = (self.directory / name).read_bytes()
            except FileNotFoundError:
                continue
        return found

    def documents(self) -> dict[str, Any]:
        """Return each spec file's decoded content by name, or None for a file that is not YAML or JSON."""
        found: dict[str, Any] = {}
        for name, data in self.content().items():
            try:
                found[name] = load(data).value
            except YamlError:
                found[name] = None
        return found

    def specs(self) -> dict[str, Spec | SpecError]:
        """Return each spec file's parsed spec by name, or the error for an invalid file."""
        found: dict[str, Spec | SpecError] = {}
        for name in self.names():
            try:
                found[name] = read_spec(self.directory / name)
            except SpecError as error:
                found[name] = error
            except FileNotFoundError:
                continue
        return found

    def device_names(self) -> list[str]:
        """Return the qualified names of all devices in all files. A name that is defined twice appears twice."""
        return [
            f"{document.get('kind')}={device.get('name')}"
            for document in self.documents().values()
            if isinstance(document, dict)
            for device in document.get("devices") or ()
            if isinstance(device, dict)
        ]

    def undefined_names(self, ids: Iterable[str]) -> list[str]:
        """Return the qualified names that no file defines."""
        defined = set(self.device_names())
        return [name for name in ids if name not in defined]

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
