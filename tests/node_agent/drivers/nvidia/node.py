"""A simulated node with the driver's device state, which can crash and restart."""

from collections.abc import Callable
from pathlib import Path

import yaml
from dra_node_agent.drivers.nvidia.announce import Announcer
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary
from dra_node_agent.drivers.nvidia.gates import LAB_DEFAULTS, NvidiaGates
from dra_node_agent.drivers.nvidia.simulatedhost import SimulatedHost
from dra_node_agent.drivers.nvidia.state import DeviceState
from dra_node_agent.nvml.node import open_system

from tests.driverkit.cdi.schema import check_file


class Crash(BaseException):
    """The process dies at this point."""


class Node:
    """A machine that survives the driver's process."""

    def __init__(
        self,
        directory: Path,
        gpus: str = "8xA100-SXM4-40GB",
        gates: str = LAB_DEFAULTS,
        *,
        shared: bool = False,
    ) -> None:
        self.shared = shared
        self.described = False
        self.elapsed = 0.0
        self.directory = directory / "plugins" / "gpu.nvidia.com"
        self.cdi = directory / "cdi"
        self.gates = NvidiaGates.parse(gates)
        self.system = open_system(gpus, "node-0")
        self.system.boot_id = "boot-1"
        self.host = SimulatedHost(self.system, directory / "driver")
        self.directory.mkdir(parents=True, exist_ok=True)
        self.cdi.mkdir(parents=True, exist_ok=True)

    def start(self, reached: Callable[[str], None] = lambda point: None) -> DeviceState:
        """Start or restart the driver's process."""
        library = DeviceLibrary(self.host, self.gates)
        state = DeviceState(
            library,
            self.gates,
            self.directory,
            self.cdi,
            reached,
            shared=self.shared,
            metadata=Announcer(self.gates).metadata if self.described else None,
            monotonic=lambda: self.elapsed,
        )
        state.open()
        return state

    def specs(self) -> dict[str, dict[str, object]]:
        """Return the CDI files by claim UID, validated against the schema."""
        found = {}
        for path in self.cdi.iterdir():
            assert path.suffix == ".yaml", f"left behind: {path}"
            found[path.stem.partition("_")[2]] = check_file(path)
        return found

    def count_mig_devices(self) -> int:
        """Return the number of MIG devices."""
        return sum(len(list(gpu.mig_devices())) for gpu in self.system.gpus)

    def nodes_of(self, uid: str, device: str) -> list[str]:
        """Return the device nodes of a device of a claim."""
        document = yaml.safe_load((self.cdi / f"k8s.gpu.nvidia.com-claim_{uid}.yaml").read_text())
        edits = next(d["containerEdits"] for d in document["devices"] if d["name"] == f"{uid}-{device}")
        return [node["path"] for node in edits["deviceNodes"]]


def crash_at(point: str, times: int = 1) -> Callable[[str], None]:
    """Return a callback that raises Crash when ``point`` is reached for the ``times``-th time."""
    left = times

    def reach(name: str) -> None:
        nonlocal left
        if name == point:
            left -= 1
            if not left:
                raise Crash(point)

    return reach
