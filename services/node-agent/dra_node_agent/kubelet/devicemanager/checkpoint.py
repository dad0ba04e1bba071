"""``kubelet_internal_checkpoint``, in the kubelet's own format (pkg/kubelet/cm/devicemanager/checkpoint).

The checksum is the 32-bit FNV-1a of a print of the data as Go's ``%+v``-like dump has it
(pkg/kubelet/checkpointmanager/checksum, k8s.io/utils/dump), in which absent and empty lists differ.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CHECKPOINT_FILE = "kubelet_internal_checkpoint"
CORRUPTED = "checkpoint is corrupted"
NOT_FOUND = "checkpoint is not found"

_OFFSET, _PRIME, _MASK = 2166136261, 16777619, 0xFFFFFFFF
_MAX_CHECKSUM = (1 << 64) - 1
_MAX_INT64 = (1 << 63) - 1


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
    """The checksum that the file with these data has."""
    value = _OFFSET
    for byte in hashed_text(data).encode():
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


def hashed_text(data: CheckpointData) -> str:
    """What the checksum is of."""
    entries = _nil(data.pod_device_entries, lambda found: f"[{' '.join(map(_entry_text, found))}]")
    registered = _map_text(data.registered_devices, lambda key: key.encode())
    return (
        f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){entries}"
        f" RegisteredDevices:(map[string][]string){registered}}}"
    )


def encode(data: CheckpointData) -> bytes:
    """The content of the file."""
    entries = data.pod_device_entries
    body = {
        "PodDeviceEntries": None if entries is None else [_entry_json(entry) for entry in entries],
        "RegisteredDevices": _sorted(data.registered_devices),
    }
    return _go_json({"Data": body, "Checksum": checksum(data)}).encode()


def decode(content: bytes) -> CheckpointData:
    """The data in a file.

    Raises:
        CheckpointError: they can't be read, or the checksum does not fit.
    """
    data, written = parse(content)
    if written != checksum(data):
        raise CheckpointError(CORRUPTED)
    return data


def parse(content: bytes) -> tuple[CheckpointData, int]:
    """The data in a file and its checksum, which may not fit.

    Raises:
        CheckpointError: they can't be read.
    """
    if not content.strip(b" \t\r\n"):
        raise CheckpointError("unexpected end of JSON input")
    try:
        file = json.loads(content.decode(errors="replace"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(str(error)) from error
    fields = _object(file, "checkpoint.Data")
    # Lists that the file lacks are empty; those that it has as null are nil.
    body = _object(fields.get("data"), "checkpoint.checkpointData")
    data = CheckpointData(
        _entries(body["poddeviceentries"]) if "poddeviceentries" in body else [],
        _id_lists(body["registereddevices"], "map[string][]string") if "registereddevices" in body else {},
    )
    return data, _checksum(fields.get("checksum"))


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
        "DeviceIDs": _sorted(entry.device_ids),
        "AllocResp": None if response is None else base64.b64encode(response).decode(),
    }


def _sorted(value: Mapping[Any, Sequence[str] | None] | None) -> dict[str, Any] | None:
    # Go writes the keys of maps in order, numbers too as the texts that they are in JSON.
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


def _object(value: Any, of: str) -> dict[str, Any]:
    """The fields by their names in small letters, as Go finds them in any case."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _mismatch(value, of)
    return {key.lower(): found for key, found in value.items()}


def _entries(value: Any) -> list[PodDevicesEntry] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise _mismatch(value, "[]checkpoint.PodDevicesEntry")
    return [_entry(entry) for entry in value]


def _entry(value: Any) -> PodDevicesEntry:
    fields = _object(value, "checkpoint.PodDevicesEntry")
    lists = _id_lists(fields.get("deviceids"), "checkpoint.DevicesPerNUMA")
    return PodDevicesEntry(
        _text(fields.get("poduid")),
        _text(fields.get("containername")),
        _text(fields.get("resourcename")),
        None if lists is None else {_node(key): ids for key, ids in lists.items()},
        _bytes(fields.get("allocresp")),
    )


def _id_lists(value: Any, of: str) -> dict[str, list[str] | None] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _mismatch(value, of)
    return {key: _ids(found) for key, found in value.items()}


def _ids(value: Any) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise _mismatch(value, "[]string")
    return [_text(item) for item in value]


def _node(key: str) -> int:
    try:
        if not key.lstrip("-").isdecimal() or not key.isascii():
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
    # A half of a surrogate pair becomes the replacement character.
    return value.encode(errors="surrogatepass").decode(errors="replace")


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, list):
        if all(isinstance(byte, int) and 0 <= byte <= 255 for byte in value):
            return bytes(value)
        raise _mismatch(value, "[]uint8")
    try:
        # Go's decoder skips the line ends in a base64 text.
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
    kinds = {dict: "object", list: "array", str: "string", bool: "bool"}
    return CheckpointError(
        f"json: cannot unmarshal {kinds.get(type(value), 'number')} into Go value of type {of}"
    )
