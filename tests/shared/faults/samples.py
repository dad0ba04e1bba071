"""Objects of a cluster, and samples of them, for tests of the verdicts about faults."""

from typing import Any

from dra_shared.api.codec import convert
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim, ResourceSlice
from dra_shared.api.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.faults.story import Sample


def pod(
    name: str = "p", *, restarts: int = 0, revision: str = "5", phase: str = "Running", **meta: Any
) -> Pod:
    status = {"name": "c", "restartCount": restarts, "ready": True, "image": "i", "imageID": "i"}
    return convert(
        PODS,
        {
            "metadata": {"name": name, "namespace": "a", "uid": name, "resourceVersion": revision, **meta},
            "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": phase, "containerStatuses": [status]},
        },
    )


def claim(name: str, device: str, pod: str = "p") -> ResourceClaim:
    result = {"request": "it", "driver": "d", "pool": "node-0", "device": device}
    return convert(
        RESOURCE_CLAIMS,
        {
            "metadata": {"name": name, "namespace": "a", "uid": name},
            "status": {
                "allocation": {"devices": {"results": [result]}},
                "reservedFor": [{"resource": "pods", "name": pod, "uid": pod}],
            },
        },
    )


def slices_of(*devices: str, tainted: str = "") -> ResourceSlice:
    taint = [{"key": "d/xid", "effect": "NoSchedule"}]
    return convert(
        RESOURCE_SLICES,
        {
            "metadata": {"name": "s", "uid": "s"},
            "spec": {
                "driver": "d",
                "nodeName": "node-0",
                "pool": {"name": "node-0", "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {"name": name, **({"taints": taint} if name == tainted else {})} for name in devices
                ],
            },
        },
    )


def node(uid: str = "n", *, ready: str = "True", boot: str = "") -> Node:
    condition = {"type": "Ready", "status": ready}
    status = {"conditions": [condition], "nodeInfo": {"bootID": boot}}
    return convert(NODES, {"metadata": {"name": "node-0", "uid": uid}, "status": status})


def sample(*objects: Any, at: float = 1.0) -> Sample:
    def of(kind: type[Any]) -> dict[str, Any]:
        return {one.metadata.uid: one for one in objects if isinstance(one, kind)}

    return Sample(at, of(Pod), of(ResourceClaim), of(ResourceSlice), of(Node))
