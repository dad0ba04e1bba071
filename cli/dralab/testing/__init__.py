"""Clusters for tests: a pytest fixture ``dra_cluster``, and context managers for everything else.

``with Cluster(nodes=2) as cluster:`` for code that blocks, ``async with AsyncCluster(nodes=2) as cluster:`` for
code that awaits. Installing dralab makes the fixture known to pytest (``dralab.testing.plugin``).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dralab.testing.blocking import Cluster, Pod
    from dralab.testing.cluster import AsyncCluster, WaitTimeout
    from dralab.testing.disturbance import Broken, Disturbance
    from dralab.testing.options import Options
    from dralab.testing.pods import AsyncPod

__all__ = ["AsyncCluster", "AsyncPod", "Broken", "Cluster", "Disturbance", "Options", "Pod", "WaitTimeout"]

_MODULES = {
    "AsyncCluster": "cluster",
    "AsyncPod": "pods",
    "Broken": "disturbance",
    "Cluster": "blocking",
    "Disturbance": "disturbance",
    "Options": "options",
    "Pod": "blocking",
    "WaitTimeout": "cluster",
}


def __getattr__(name: str) -> Any:
    # Every pytest imports the package for its plugin, also where no test has a cluster: the services come when used.
    if name in _MODULES:
        return getattr(import_module(f"dralab.testing.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
