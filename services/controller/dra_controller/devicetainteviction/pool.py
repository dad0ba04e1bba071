"""The slices of one pool. Only those of the newest generation count.

Mirrors pkg/controller/devicetainteviction/device_taint_eviction.go.
"""

from collections.abc import Iterator

from dra_shared.api.resource import Device, DeviceTaint, ResourceSlice
from dra_shared.taints import NO_EXECUTE


class Pool:
    """The slices of one driver that have the same pool name."""

    def __init__(self) -> None:
        self._slices: dict[str, ResourceSlice] = {}
        self._generation = 0

    def __bool__(self) -> bool:
        return bool(self._slices)

    def add(self, piece: ResourceSlice) -> None:
        self._slices[piece.metadata.name] = piece
        self._update()

    def remove(self, piece: ResourceSlice) -> None:
        self._slices.pop(piece.metadata.name, None)
        self._update()

    def _update(self) -> None:
        self._generation = max((piece.spec.pool.generation for piece in self._slices.values()), default=0)

    def current(self) -> Iterator[ResourceSlice]:
        """Yield the slices of the newest generation."""
        return (piece for piece in self._slices.values() if piece.spec.pool.generation == self._generation)

    def slices(self) -> list[ResourceSlice]:
        """Return all slices, including outdated ones."""
        return list(self._slices.values())

    def find(self, device: str) -> tuple[ResourceSlice, Device] | None:
        """Return the device of that name, and its slice."""
        for piece in self.current():
            for candidate in piece.spec.devices:
                if candidate.name == device:
                    return piece, candidate
        return None

    def evicting_taints(self) -> dict[str, list[DeviceTaint]]:
        """Return the NoExecute taints by device."""
        found: dict[str, list[DeviceTaint]] = {}
        for piece in self.current():
            for device in piece.spec.devices:
                taints = [taint for taint in device.taints if taint.effect == NO_EXECUTE]
                if taints:
                    found.setdefault(device.name, []).extend(taints)
        return found
