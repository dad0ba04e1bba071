"""The devices of a container's claims, as its programs see them."""

from collections.abc import Iterator

import pytest
from dralab.testing import Cluster

pytestmark = pytest.mark.system

_PODS = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: two}
spec: {spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu.amd.com, count: 2}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: gpus}
spec:
  restartPolicy: Never
  resourceClaims: [{name: gpus, resourceClaimTemplateName: two}]
  containers:
  - name: c
    image: any
    command:
    - sh
    - -c
    - |
      dralab-devices -d gpu.amd.com '{index} {device} {attribute.productName} {capacityMi.memory} {attribute.other}'
      dralab-devices -d gpu.nvidia.com
      rocm-smi --showid
    resources: {claims: [{name: gpus}]}
---
apiVersion: v1
kind: Pod
metadata: {name: none}
spec:
  restartPolicy: Never
  containers: [{name: c, image: any, command: [sh, -c, "dralab-devices; rocm-smi"]}]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(drivers=["gpu.amd.com"]) as made:
        yield made


def test_programs_see_the_devices_of_their_container_alone(cluster: Cluster) -> None:
    cluster.apply(_PODS)
    cluster.pod("gpus").wait_for("Succeeded")
    assert cluster.pod("gpus").logs().splitlines()[:2] == [
        "0 gpu-0-128 AMD_Instinct_MI300X_OAM 196592 N/A",
        "1 gpu-8-136 AMD_Instinct_MI300X_OAM 196592 N/A",
    ]
    assert "GPU[1]\t\t: Device ID" in cluster.pod("gpus").logs()
    cluster.pod("none").wait_for("Failed")
    assert cluster.pod("none").logs().splitlines() == [
        "ERROR:root:Driver not initialized (amdgpu not found in modules)"
    ]
