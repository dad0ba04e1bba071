"""Clusters for tests: a pytest fixture ``dra_cluster``, and context managers for everything else.

``with Cluster(nodes=2) as cluster:`` for code that blocks, ``async with AsyncCluster(nodes=2) as cluster:`` for
code that awaits. Installing dralab makes the fixture known to pytest.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dra_testing.blocking import Cluster, Pod
    from dra_testing.cluster import AsyncCluster, WaitTimeout
    from dra_testing.disturbance import Broken, Disturbance
    from dra_testing.options import Options
    from dra_testing.pods import AsyncPod

__all__ = ["AsyncCluster", "AsyncPod", "Broken", "Cluster", "Disturbance", "Options", "Pod", "WaitTimeout"]


def __getattr__(name: str) -> Any:
    # The classes bring the services along: a program that only imports this package need not load them.
    if name in __all__:
        from dralab.testing import names

        return getattr(names, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
