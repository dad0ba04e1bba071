"""The partitions into which Fabric Manager divides the NVLink switches of a machine (pkg/fabricmanager).

GPUs of one partition reach only each other. A claim's GPUs have to be exactly those of one partition.
Attributes of the devices name the partition of each size that they belong to.
"""

from collections.abc import Collection, Mapping, Sequence

from dra_driverkit.errors import PrepareError
from dra_shared.api.resource import DeviceAttribute

# By module id, as `fmpm -l` lists them on HGX H100 (NVIDIA's HGX Shared NVSwitch GPU Passthrough Virtualization
# Integration Guide).
_OF_EIGHT: Sequence[Collection[int]] = (
    range(1, 9),
    range(1, 5),
    range(5, 9),
    (1, 3),
    (2, 4),
    (5, 7),
    (6, 8),
    *((module,) for module in range(1, 9)),
)


class FabricPartitions:
    """The partitions of one machine.

    Args:
        modules: the GPUs' positions on the baseboard, by PCI address; empty if the driver does not use them.
        switched: whether the GPUs are behind switches that Fabric Manager programs.
    """

    def __init__(self, modules: Mapping[str, int], *, switched: bool) -> None:
        self._modules = modules
        self._partitions = _partitions(sorted(modules.values())) if switched else []

    def attributes(self, pci_bus_id: str) -> dict[str, DeviceAttribute]:
        """Return the attributes for a GPU's position: ``gpuModuleID``, ``partition2`` and so on."""
        module = self._modules.get(pci_bus_id)
        if module is None:
            return {}
        found = {"gpuModuleID": DeviceAttribute(int_=module)}
        for number, members in enumerate(self._partitions):
            if module in members:
                found[f"partition{len(members)}"] = DeviceAttribute(int_=number)
        return found

    def activate(self, pci_bus_ids: Collection[str]) -> int | None:
        """Return the partition of exactly these GPUs, or None without GPUs or switches.

        Raises:
            PrepareError: there is no such partition.
        """
        if not self._partitions or not pci_bus_ids:
            return None
        modules = sorted(self._modules[address] for address in pci_bus_ids)
        for number, members in enumerate(self._partitions):
            if members == frozenset(modules):
                return number
        shown = " ".join(map(str, modules))
        raise PrepareError(
            f"fabric manager: GPU module set [{shown}] does not match any FM partition; "
            "refusing partition activation"
        )


NO_PARTITIONS = FabricPartitions({}, switched=False)


def _partitions(modules: Sequence[int]) -> list[frozenset[int]]:
    """Return the partitions by id.

    A baseboard of eight GPUs has NVIDIA's fixed partitions. Any other has one with all GPUs and one for each
    GPU.
    """
    if len(modules) == len(_OF_EIGHT[0]):
        return [frozenset(members) for members in _OF_EIGHT]
    alone = [frozenset((module,)) for module in modules]
    return [frozenset(modules), *alone] if len(modules) > 1 else alone
