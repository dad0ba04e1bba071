"""The faults by name, for ``dralab fault``, ``dralab.testing``, storms and the services' ``/faults``."""

from dra_shared.faults.kind import Kind
from dra_shared.faults.kinds import drivers, gpus, kubelets, nodes, processes, requests, watches

# In the order in which `dralab fault` lists them.
_ALL: tuple[Kind, ...] = (
    requests.LATENCY,
    requests.ERROR,
    requests.CONFLICT,
    watches.WATCH_CUT,
    watches.WATCH_BEHIND,
    processes.STOP,
    processes.KILL,
    requests.RESET,
    requests.LOSS,
    processes.TWO_SCHEDULERS,
    gpus.XID,
    gpus.ECC,
    gpus.GPU_LOST,
    gpus.MIG_CHANGED,
    gpus.MEMORY_FULL,
    drivers.DRIVER_CRASH,
    drivers.DRIVER_HANG,
    drivers.DRIVER_SLOW,
    drivers.DRIVER_WRONG,
    drivers.DRIVER_GONE,
    drivers.DRIVER_RESET,
    drivers.DRIVER_OLD,
    kubelets.KUBELET_STOP,
    kubelets.CHECKPOINT_LOST,
    kubelets.CHECKPOINT_CORRUPT,
    kubelets.DISK_FULL,
    nodes.NODE_SILENT,
    nodes.NODE_GONE,
    nodes.REBOOT,
    nodes.CLOCK_AHEAD,
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
