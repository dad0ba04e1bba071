"""A cluster of each version of Kubernetes gives a pod its GPU."""

import pytest
from dra_shared.version import VERSIONS, Version, release
from dralab.testing import Cluster

from tests.support.sampling import sample

MANIFEST = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  restartPolicy: Never
  containers:
  - {name: c, image: ubuntu, command: [nvidia-smi, -L], resources: {claims: [{name: gpu}]}}
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
"""


@pytest.mark.parametrize("version", sample(VERSIONS, 2), ids=str)
def test_a_pod_gets_a_gpu_in_each_version(version: Version) -> None:
    with Cluster(version=str(version)) as cluster:
        cluster.apply(MANIFEST)
        cluster.pod("p").wait_for("Succeeded")
        assert "A100" in cluster.pod("p").logs()
        node = cluster.get("node/node-0")
        assert node["status"]["nodeInfo"]["kubeletVersion"] == release(version).git_version
