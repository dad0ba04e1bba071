"""``kubelet_internal_checkpoint`` in the kubelet's own format (pkg/kubelet/cm/devicemanager/checkpoint).

The checksum is the 32-bit FNV-1a of the data printed by Go's dump package
(pkg/kubelet/checkpointmanager/checksum, k8s.io/utils/dump), in which absent and empty lists differ.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

CHECKPOINT_FILE = "kubelet_internal_checkpoint"
CORRUPTED = "checkpoint is corrupted"
NOT_FOUND = "checkpoint is not found"

_OFFSET, _PRIME, _MASK = 2166136261, 16777619, 0xFFFFFFFF
_MAX_CHECKSUM = (1 << 64) - 1
_MAX_INT64 = (1 << 63) - 1

K = TypeVar("K", str, int)


class CheckpointError(Exception):
    """The checkpoint cannot be read or written."""


@dataclass(frozen=True)
class PodDevicesEntry:
    """The devices of one resource in one container. None stands for Go's nil."""

    pod_uid: str = ""
    container_name: str = ""
    resource_name: str = ""
    device_ids: Mapping[int, Sequence[str] | None] | None = None
    alloc_resp: bytes | None = None


@dataclass(frozen=True)
class CheckpointData:
    """The content of a checkpoint. None stands for Go's nil."""

    pod_device_entries: Sequence[PodDevicesEntry] | None = None
    registered_devices: Mapping[str, Sequence[str] | None] | None = None


def checksum(data: CheckpointData) -> int:
    """Return the checksum of a file with this data."""
    value = _OFFSET
    for byte in hashed_text(data).encode():
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


def hashed_text(data: CheckpointData) -> str:
    """Return the text that the checksum covers."""
    entries = _nil(data.pod_device_entries, lambda found: f"[{' '.join(map(_entry_text, found))}]")
    registered = _map_text(data.registered_devices, lambda key: key.encode())
    return (
        f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){entries}"
        f" RegisteredDevices:(map[string][]string){registered}}}"
    )


def encode(data: CheckpointData) -> bytes:
    """Return the content of the file."""
    entries = data.pod_device_entries
    body = {
        "PodDeviceEntries": None if entries is None else [_entry_json(entry) for entry in entries],
        "RegisteredDevices": _sort_keys(data.registered_devices),
    }
    return _go_json({"Data": body, "Checksum": checksum(data)}).encode()


def decode(content: bytes) -> CheckpointData:
    """Decode a file.

    Raises:
        CheckpointError: it cannot be read, or the checksum is wrong.
    """
    data, written = parse(content)
    if written != checksum(data):
        raise CheckpointError(CORRUPTED)
    return data


def parse(content: bytes) -> tuple[CheckpointData, int]:
    """Decode a file, and return the data and the checksum without comparing it.

    Raises:
        CheckpointError: it cannot be read.
    """
    if not content.strip(b" \t\r\n"):
        raise CheckpointError("unexpected end of JSON input")
    try:
        file = json.loads(
            content.decode(errors="replace"), parse_constant=_no_number, object_pairs_hook=_Object
        )
    except (ValueError, RecursionError) as error:
        raise CheckpointError(str(error)) from error
    draft = _Draft()
    draft.read(file)
    return draft.data(), draft.checksum


def _nil(value: Any, text: Any) -> str:
    return "<nil>" if value is None else str(text(value))


def _map_text(value: Mapping[Any, Sequence[str] | None] | None, order: Any) -> str:
    if value is None:
        return "<nil>"
    items = (
        f"{key}:{_nil(value[key], lambda ids: '[' + ' '.join(ids) + ']')}" for key in sorted(value, key=order)
    )
    return f"map[{' '.join(items)}]"


def _entry_text(entry: PodDevicesEntry) -> str:
    device_ids = _map_text(entry.device_ids, int)
    response = _nil(entry.alloc_resp, lambda found: f"[{' '.join(map(str, found))}]")
    return (
        f"{{PodUID:(string){entry.pod_uid} ContainerName:(string){entry.container_name}"
        f" ResourceName:(string){entry.resource_name} DeviceIDs:(checkpoint.DevicesPerNUMA){device_ids}"
        f" AllocResp:([]uint8){response}}}"
    )


def _entry_json(entry: PodDevicesEntry) -> dict[str, Any]:
    response = entry.alloc_resp
    return {
        "PodUID": entry.pod_uid,
        "ContainerName": entry.container_name,
        "ResourceName": entry.resource_name,
        "DeviceIDs": _sort_keys(entry.device_ids),
        "AllocResp": None if response is None else base64.b64encode(response).decode(),
    }


def _sort_keys(value: Mapping[Any, Sequence[str] | None] | None) -> dict[str, Any] | None:
    # Go sorts the keys of maps. In JSON, numbers are sorted as texts.
    if value is None:
        return None
    texts = {str(key): None if ids is None else list(ids) for key, ids in value.items()}
    return {key: texts[key] for key in sorted(texts, key=str.encode)}


def _go_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _no_number(name: str) -> float:
    raise ValueError(f"invalid character '{name[0]}' looking for beginning of value")


@dataclass(frozen=True)
class _Object:
    """A JSON object. Keys may repeat. Go decodes each value into the result of the previous one."""

    pairs: Sequence[tuple[str, Any]]


class _Draft:
    """A file while it is decoded. Lists that the file lacks are empty. Lists that are null in it are nil."""

    def __init__(self) -> None:
        self.checksum = 0
        self._entries = _Entries()
        self._registered: dict[str, list[str] | None] | None = {}

    def read(self, value: Any) -> None:
        """Decode the whole file."""
        for key, found in _members(value, "checkpoint.Data"):
            if key == "data":
                self._read_data(found)
            elif key == "checksum" and found is not None:
                self.checksum = _checksum(found)

    def _read_data(self, value: Any) -> None:
        for key, found in _members(value, "checkpoint.checkpointData"):
            if key == "poddeviceentries":
                self._entries.read(found)
            elif key == "registereddevices":
                self._registered = _merge_map(self._registered, found, "map[string][]string", _text)

    def data(self) -> CheckpointData:
        """Return what has been decoded."""
        return CheckpointData(self._entries.finish(), self._registered)


class _Entries:
    """A slice of entries. As in Go, a second list is decoded into the elements of the first one."""

    def __init__(self) -> None:
        # Elements beyond the length remain in the slice's array.
        self._array: list[_Entry] = []
        self._length: int | None = 0

    def read(self, value: Any) -> None:
        """Decode a list."""
        if value is None:
            self._array, self._length = [], None
            return
        if not isinstance(value, list):
            raise _mismatch(value, "[]checkpoint.PodDevicesEntry")
        if not value:
            self._array = []
        for index, item in enumerate(value):
            if index == len(self._array):
                self._array.append(_Entry())
            self._array[index].read(item)
        self._length = len(value)

    def finish(self) -> list[PodDevicesEntry] | None:
        """Return the entries, or None if the slice is nil."""
        if self._length is None:
            return None
        return [entry.finish() for entry in self._array[: self._length]]


class _Entry:
    """An entry while it is decoded. A null leaves texts unchanged."""

    def __init__(self) -> None:
        self._texts = dict.fromkeys(("poduid", "containername", "resourcename"), "")
        self._device_ids: dict[int, list[str] | None] | None = None
        self._response: bytes | None = None

    def read(self, value: Any) -> None:
        """Decode an object."""
        for key, found in _members(value, "checkpoint.PodDevicesEntry"):
            if key in self._texts and found is not None:
                self._texts[key] = _text(found)
            elif key == "deviceids":
                self._device_ids = _merge_map(self._device_ids, found, "checkpoint.DevicesPerNUMA", _node)
            elif key == "allocresp":
                self._response = _bytes(found)

    def finish(self) -> PodDevicesEntry:
        """Return the entry."""
        uid, container, resource = self._texts.values()
        return PodDevicesEntry(uid, container, resource, self._device_ids, self._response)


def _members(value: Any, of: str) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a struct with lower-case names, because Go matches names in any case."""
    if value is None:
        return
    if not isinstance(value, _Object):
        raise _mismatch(value, of)
    for key, found in value.pairs:
        # Go also folds the long s, which has no lower case in Python.
        yield key.replace("\u017f", "s").lower(), found


def _merge_map(
    known: dict[K, list[str] | None] | None, value: Any, of: str, key_of: Callable[[str], K]
) -> dict[K, list[str] | None] | None:
    """Decode an object into a map that may have entries from an earlier object with the same key."""
    if value is None:
        return None
    if not isinstance(value, _Object):
        raise _mismatch(value, of)
    return {**(known or {}), **{key_of(key): _ids(found) for key, found in value.pairs}}


def _ids(value: Any) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise _mismatch(value, "[]string")
    return [_text(item) for item in value]


def _node(key: str) -> int:
    try:
        if not key.removeprefix("-").removeprefix("+").isdecimal() or not key.isascii():
            raise ValueError
        node = int(key)
    except ValueError:
        node = _MAX_INT64 + 1
    if not -_MAX_INT64 - 1 <= node <= _MAX_INT64:
        raise CheckpointError(f"json: cannot unmarshal number {key} into Go value of type int64")
    return node


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _mismatch(value, "string")
    # Half of a surrogate pair becomes the replacement character.
    return value.encode(errors="surrogatepass").decode(errors="replace")


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, list):
        if all(isinstance(byte, int) and 0 <= byte <= 255 for byte in value):
            return bytes(value)
        raise _mismatch(value, "[]uint8")
    try:
        # Go's decoder ignores line breaks in base64.
        return base64.b64decode(_text(value).replace("\n", "").replace("\r", ""), validate=True)
    except binascii.Error as error:
        raise CheckpointError(f"illegal base64 data: {error}") from error


def _checksum(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise _mismatch(value, "checksum.Checksum")
    if not 0 <= value <= _MAX_CHECKSUM:
        raise CheckpointError(
            f"json: cannot unmarshal number {value} into Go struct field Data.Checksum of type checksum.Checksum"
        )
    return value


def _mismatch(value: Any, of: str) -> CheckpointError:
    kinds = {_Object: "object", list: "array", str: "string", bool: "bool"}
    return CheckpointError(
        f"json: cannot unmarshal {kinds.get(type(value), 'number')} into Go value of type {of}"
    )
