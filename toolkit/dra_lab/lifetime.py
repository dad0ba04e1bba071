"""End a cluster when its parent process ends, if it has one, and when its data directory is removed."""

import asyncio
import os

from dra_kube.cluster import Cluster

PARENT = "DRALAB_PARENT"
"""The environment variable with the pid of the process that a cluster must not outlive."""

_EVERY = 1.0


def take_parent() -> int:
    """Return the pid in the environment, 0 if there is none, and remove it, so that no other process inherits it."""
    pid = os.environ.pop(PARENT, "")
    return int(pid) if pid.isdecimal() else 0


async def reason_to_stop(cluster: Cluster, parent: int) -> str:
    """Wait until a cluster that this process runs has to stop, and return why.

    When the parent process ends, the kernel gives this process another parent. Checking the parent's pid is
    portable, and unlike the signal at a parent's end (PR_SET_PDEATHSIG) it does not react to the end of the
    thread that started this process.
    """
    while True:
        if parent and os.getppid() != parent:
            return f"process {parent}, which started it, has ended"
        if cluster.is_lost():
            return f"{cluster.data} was removed"
        await asyncio.sleep(_EVERY)
