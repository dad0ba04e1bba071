"""A cluster without a scheduler: tests allocate claims and bind pods."""

from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim, ResourceSlice
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.client.errors import NotFound
from dra_shared.client.rest import Client, PatchType

from tests.support.waiting import until_object

_SCRIPT = "nvidia-smi -L; trap 'exit 0' TERM; sleep 9999 & wait"


async def slices(client: Client) -> list[ResourceSlice]:
    return list((await client.list(RESOURCE_SLICES)).items)


async def find_pod(client: Client, name: str) -> Pod | None:
    try:
        return await client.get(PODS, name, "default")
    except NotFound:
        return None


async def bound_pod(client: Client, name: str, node: str, device: str) -> ResourceClaim:
    """Create a pod with a claim, allocated, reserved and bound as a scheduler does."""
    claim = await client.create(
        RESOURCE_CLAIMS,
        convert(
            RESOURCE_CLAIMS,
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "devices": {
                        "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]
                    }
                },
            },
        ),
    )
    container = {
        "name": "main",
        "image": "ubuntu:22.04",
        "command": ["bash", "-c"],
        "args": [_SCRIPT],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    pod = await client.create(
        PODS,
        convert(
            PODS,
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "containers": [container],
                    "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
                },
            },
        ),
    )
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": node, "device": device}
    allocation = {"devices": {"results": [result]}}
    consumer = {"resource": "pods", "name": name, "uid": pod.metadata.uid}
    claim = await client.patch(
        RESOURCE_CLAIMS,
        name,
        {"status": {"allocation": allocation, "reservedFor": [consumer]}},
        "default",
        patch_type=PatchType.MERGE,
        subresource="status",
    )
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": node},
    }
    await client.create_subresource(PODS, name, "binding", binding, "default")
    return claim


async def wait_until_running(client: Client, name: str) -> Pod:
    """Wait until the pod is running, and return it."""
    pod = await until_object(
        client, PODS, name, lambda pod: pod is not None and pod.status.phase == "Running", "default"
    )
    assert pod is not None
    return pod


async def wait_until_gone(client: Client, name: str) -> None:
    """Wait until the pod is gone."""
    await until_object(client, PODS, name, lambda pod: pod is None, "default")
