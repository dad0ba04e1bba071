"""Clusters for tests: a pytest fixture ``dra_cluster``, and context managers for everything else.

``with Cluster(nodes=2) as cluster:`` for code that blocks, ``async with AsyncCluster(nodes=2) as cluster:`` for
code that awaits. Installing dralab makes the fixture known to pytest (``dralab.testing.plugin``).
"""

from dralab.testing.blocking import Cluster, Pod
from dralab.testing.cluster import AsyncCluster, AsyncPod, WaitTimeout
from dralab.testing.options import Options

__all__ = ["AsyncCluster", "AsyncPod", "Cluster", "Options", "Pod", "WaitTimeout"]
