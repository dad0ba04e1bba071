"""Sharing of a GPU between containers: time slices, and MPS control daemons (cmd/gpu-kubelet-plugin/sharing.go)."""

import hashlib
import shutil
from pathlib import Path

from dra_driverkit.cdi import ContainerEdits

from dra_node_agent.drivers.nvidia.config import MpsConfig, TimeSlicingConfig
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary
from dra_node_agent.drivers.nvidia.edits import mps_edits

_DEFAULT_MODE = 0
_EXCLUSIVE_PROCESS_MODE = 3


def set_time_slice(library: DeviceLibrary, uuids: list[str], config: TimeSlicingConfig) -> None:
    """Set the time slice of GPUs, in the compute mode that allows it. Raises DiscoveryError."""
    library.set_compute_mode(uuids, _DEFAULT_MODE)
    library.set_time_slice(uuids, config.number)


class MpsDaemons:
    """The MPS control daemons of a node.

    NVIDIA's driver runs each as a Deployment of one pod. Here the driver itself simulates the daemon: it
    creates the directories for clients, the commands for the daemon, and the daemon's start-up log.

    Args:
        directory: the ``mps`` directory in the driver's data.
    """

    def __init__(self, directory: Path, library: DeviceLibrary) -> None:
        self._directory = str(directory)
        self._library = library

    def start(
        self, claim_uid: str, gpu_uuids: list[str], uuids: list[str], config: MpsConfig
    ) -> tuple[str, ContainerEdits]:
        """Start a daemon for these devices, or find the running one. Return its id and the edits for its clients.

        Raises:
            PrepareError: a memory limit is invalid.
            DiscoveryError: NVML refused the exclusive mode.
        """
        daemon = self._id(claim_uid, uuids)
        root = Path(self._directory) / daemon
        limits = config.pinned_limits(uuids)
        for part in ("shm", "pipe", "log"):
            (root / part).mkdir(parents=True, exist_ok=True)
        self._library.set_compute_mode(gpu_uuids, _EXCLUSIVE_PROCESS_MODE)
        commands = ["nvidia-cuda-mps-control -d" + (" -multiuser-server" if config.multi_user else "")]
        if config.default_active_thread_percentage is not None:
            commands.append(f"set_default_active_thread_percentage {config.default_active_thread_percentage}")
        commands += [
            f"set_default_device_pinned_mem_limit {uuid} {limit}" for uuid, limit in sorted(limits.items())
        ]
        (root / "log" / "control.log").write_text(
            f"CUDA_VISIBLE_DEVICES={','.join(uuids)}\n" + "".join(f"{command}\n" for command in commands)
        )
        (root / "log" / "startup.log").write_text("startup complete\n")
        return daemon, mps_edits(str(root / "pipe"), str(root / "shm"))

    def stop(self, claim_uid: str) -> None:
        """Stop all daemons of a claim and delete their files."""
        for root in Path(self._directory).glob(f"{claim_uid}-*"):
            shutil.rmtree(root)

    def _id(self, claim_uid: str, uuids: list[str]) -> str:
        return f"{claim_uid}-{hashlib.sha256(','.join(sorted(uuids)).encode()).hexdigest()[:5]}"
