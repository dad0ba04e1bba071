"""The public names of :mod:`dralab.testing`."""

from dra_testing.blocking import Cluster, Pod
from dra_testing.cluster import AsyncCluster, WaitTimeout
from dra_testing.disturbance import Broken, Disturbance
from dra_testing.options import Options
from dra_testing.pods import AsyncPod

__all__ = ["AsyncCluster", "AsyncPod", "Broken", "Cluster", "Disturbance", "Options", "Pod", "WaitTimeout"]
