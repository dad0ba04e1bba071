"""Test that each broken invariant of a cluster at rest is found, and nothing else."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS
from dra_shared.faults.invariants import find_breaches, find_leaked_files, pending_pods

_SHARED: dict[str, Any] = {"shareID": "a671734a-e8e5-11e4-8fde-42010af09327"}


def _pod(name: str, phase: str = "Running", node: str = "node-0", **meta: Any) -> Pod:
    return convert(
        PODS,
        {
            "metadata": {"name": name, "namespace": "a", "uid": name, **meta},
            "spec": {"nodeName": node or None, "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": phase},
        },
    )


def _claim(name: str, pod: str, device: str = "gpu-0", **result: Any) -> ResourceClaim:
    got = {"request": "it", "driver": "d", "pool": "node-0", "device": device, **result}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod, "controller": True}
    return convert(
        RESOURCE_CLAIMS,
        {
            "metadata": {"name": name, "namespace": "a", "ownerReferences": [owner]},
            "spec": {},
            "status": {
                "allocation": {"devices": {"results": [got]}},
                "reservedFor": [{"resource": "pods", "name": pod, "uid": pod}],
            },
        },
    )


def test_no_broken_invariant_is_reported_for_a_consistent_cluster() -> None:
    pods = [_pod("p"), _pod("q", "Succeeded"), _pod("w", "Pending", node="")]
    assert find_breaches(pods, [_claim("c", "p"), _claim("d", "q", "gpu-1")]) == []
    assert [pod.metadata.name for pod in pending_pods(pods)] == ["w"]


@pytest.mark.parametrize("result", [{"adminAccess": True}, _SHARED])
def test_a_device_with_several_users_is_not_reported_if_the_api_allows_sharing(
    result: dict[str, Any],
) -> None:
    assert find_breaches([_pod("p"), _pod("q")], [_claim("c", "p"), _claim("d", "q", **result)]) == []


@pytest.mark.parametrize(
    ("pods", "claims", "fitting", "wanted"),
    [
        (
            [_pod("p"), _pod("q")],
            [_claim("c", "p"), _claim("d", "q")],
            [],
            ["device d/node-0/gpu-0 belongs to a/c and a/d"],
        ),
        (
            [],
            [_claim("c", "p")],
            [],
            ["claim a/c was made for pod p, which is gone", "claim a/c is reserved for pod p, which is gone"],
        ),
        ([_pod("w", "Pending", node="")], [], ["a/w"], ["pod a/w waits, and a node could take it"]),
        ([_pod("p", "Pending")], [], [], ["pod a/p is on node-0 and does not run: Pending"]),
        (
            [_pod("p", deletionTimestamp="2026-01-01T00:00:00Z")],
            [],
            [],
            ["pod a/p is being deleted, and does not go"],
        ),
    ],
)
def test_each_broken_invariant_is_reported(
    pods: list[Pod], claims: list[ResourceClaim], fitting: list[str], wanted: list[str]
) -> None:
    assert find_breaches(pods, claims, fitting) == wanted


def test_a_cdi_file_of_a_deleted_claim_is_reported() -> None:
    uid, other = "0b7bd3f0-5d7c-4c6e-9d0e-6f7a9f4c1d11", "1b7bd3f0-5d7c-4c6e-9d0e-6f7a9f4c1d11"
    claim = _claim("c", "p")
    held = msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, uid=uid))
    files = [Path(f"nodes/n/cdi/d-gpu_{name}.yaml") for name in (uid, other, "common")]
    assert find_leaked_files(files, [held]) == [
        f"CDI file nodes/n/cdi/d-gpu_{other}.yaml is of a claim that is gone"
    ]
