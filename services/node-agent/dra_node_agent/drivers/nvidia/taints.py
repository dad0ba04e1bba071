"""The taints for health events on devices (healthEventToTaint in cmd/gpu-kubelet-plugin/device_health.go).

NVML reports an XID only once. Its taint is therefore kept in a file until the machine reboots, because a GPU
does not recover when its driver restarts. The other taints describe the current state in NVML, and are found
again.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from dra_driverkit.files import write_atomically
from dra_shared.api.resource import DeviceTaint
from dra_shared.log import logger

from dra_node_agent.drivers.nvidia import DRIVER_NAME

FILE_NAME = "device_taints.json"
XID = f"{DRIVER_NAME}/xid"

_log = logger(__name__)


class _File(msgspec.Struct, rename="camel"):
    node_boot_id: str
    devices: dict[str, DeviceTaint]


class DeviceTaints:
    """The taints of one node's devices, by device name."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._boot_id = ""
        self._taints: dict[str, tuple[DeviceTaint, ...]] = {}

    def open(self, boot_id: str) -> None:
        """Load the state of the previous process, or discard it if the machine has rebooted."""
        self._boot_id = boot_id
        try:
            left = msgspec.json.decode(Path(self._path).read_bytes(), type=_File)
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            _log.warning(
                "taints of devices are unreadable, starting without", path=self._path, error=str(error)
            )
            return
        if left.node_boot_id == boot_id:
            self._taints = {name: (taint,) for name, taint in left.devices.items()}

    @property
    def by_device(self) -> Mapping[str, tuple[DeviceTaint, ...]]:
        """All taints by device name."""
        return self._taints

    def of(self, device: str) -> tuple[DeviceTaint, ...]:
        """Return the device's taints."""
        return self._taints.get(device, ())

    def add(self, devices: Iterable[str], taint: DeviceTaint) -> bool:
        """Add the taint to the devices, replacing one with the same key. Return True if anything changed."""
        changed = [name for name in devices if not any(_same(old, taint) for old in self.of(name))]
        for name in changed:
            kept = tuple(old for old in self.of(name) if old.key != taint.key)
            self._taints[name] = (*kept, taint)
        if changed and taint.key == XID:
            self._save()
        return bool(changed)

    def clear(self) -> bool:
        """Remove all taints after a repair. Return True if there were any."""
        changed, self._taints = bool(self._taints), {}
        if changed:
            self._save()
        return changed

    def _save(self) -> None:
        xids = {name: taint for name, taints in self._taints.items() for taint in taints if taint.key == XID}
        try:
            write_atomically(
                Path(self._path), msgspec.json.encode(_File(self._boot_id, xids)), durable=False
            )  # No sync to the disk: after a power failure the machine boots, which discards the file anyway.
        except OSError as error:
            _log.warning("taints of devices not written", path=self._path, error=str(error))


def _same(one: DeviceTaint, other: DeviceTaint) -> bool:
    return (one.key, one.value, one.effect) == (other.key, other.value, other.effect)
