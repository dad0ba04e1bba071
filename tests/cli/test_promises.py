"""Whether a fault's own promise was kept, from what was seen of the cluster."""

from typing import Any

from dra_cli.faults.catalog import KINDS
from dra_cli.faults.promises import PROMISES, judge
from dra_cli.faults.story import Sample, Story
from dra_shared.api.codec import convert
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim, ResourceSlice
from dra_shared.api.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES


def _pod(
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


def _claim(name: str, device: str, pod: str = "p") -> ResourceClaim:
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


def _slice(*devices: str, tainted: str = "") -> ResourceSlice:
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


def _node(uid: str = "n", *, ready: str = "True") -> Node:
    condition = {"type": "Ready", "status": ready}
    return convert(NODES, {"metadata": {"name": "node-0", "uid": uid}, "status": {"conditions": [condition]}})


def _sample(*objects: Any, at: float = 1.0) -> Sample:
    def of(kind: type[Any]) -> dict[str, Any]:
        return {one.metadata.uid: one for one in objects if isinstance(one, kind)}

    return Sample(at, of(Pod), of(ResourceClaim), of(ResourceSlice), of(Node))


def _broken(fault: str, before: Sample, during: list[Sample], after: Sample, seconds: float = 5) -> list[str]:
    return judge(Story(fault, seconds, "node-0", before, during, after))[1]


def test_each_fault_has_a_promise_of_its_own() -> None:
    assert PROMISES.keys() == KINDS.keys()
    assert all(PROMISES.values())


def test_what_was_kept_is_named() -> None:
    calm = _sample(_pod(), _claim("c", "gpu-0"), _slice("gpu-0"), _node())
    kept, broken = judge(Story("clock-ahead", 5, "node-0", calm, [calm], calm))
    assert kept == ["the node stayed Ready", "containers went on", "claims have the devices of before"]
    assert broken == []


def test_containers_that_do_not_go_on() -> None:
    before = _sample(_pod("p"), _pod("q"), _pod("r"))
    evicted = _pod("q", deletionTimestamp="2026-01-01T00:00:00Z")
    gone = _sample(_pod("p", restarts=1), evicted)
    assert _broken("ecc", before, [gone], _sample(_pod("p", restarts=1))) == [
        "containers of pod a/p were restarted",
        "pod a/r is gone",
    ]


def test_claims_that_changed_or_were_made_twice() -> None:
    before = _sample(_claim("c", "gpu-0"))
    after = _sample(_claim("c", "gpu-1"), _claim("d", "gpu-1"))
    assert _broken("driver-reset", before, [], after) == [
        "claim a/c has other devices than before",
        "device d/node-0/gpu-1 belongs to a/c and a/d",
    ]


def test_a_write_that_was_lost() -> None:
    assert _broken("kill", _sample(_pod(revision="7")), [], _sample(_pod(revision="6"))) == [
        "p is as it was before its revision 7"
    ]


def test_a_device_that_fails_is_tainted_and_avoided_until_it_works_again() -> None:
    good, bad = _slice("gpu-0", "gpu-1"), _slice("gpu-0", "gpu-1", tainted="gpu-0")
    before, tainted = _sample(good), _sample(bad)
    assert _broken("xid", before, [tainted], before) == []
    assert _broken("xid", before, [before], before) == ["no device of node-0 was tainted"]
    assert _broken("xid", before, [tainted], tainted) == ["device d/node-0/gpu-0 is still tainted"]
    given = _sample(bad, _claim("new", "gpu-0"))
    assert _broken("xid", before, [tainted, given], before) == [
        "claim a/new was given the tainted device gpu-0"
    ]
    # What runs on it already need not go on.
    held = _sample(good, _pod(), _claim("c", "gpu-0"))
    failed = _sample(bad, _pod(phase="Failed"), _claim("c", "gpu-0"))
    assert _broken("xid", held, [failed], _sample(good, _pod(phase="Failed"), _claim("c", "gpu-0"))) == []


def test_slices_that_do_not_come_back() -> None:
    before = _sample(_slice("gpu-0", "gpu-1"))
    assert _broken("driver-crash", before, [], _sample(_slice("gpu-0"))) == [
        "1 devices of node-0 are not published again, such as gpu-1"
    ]


def test_nodes_that_are_silent_or_gone() -> None:
    ready, late = _sample(_node()), _sample(_node(ready="Unknown"), at=42)
    assert _broken("node-silent", ready, [ready, late], ready, 60) == []
    assert _broken("node-silent", ready, [ready], ready, 60) == ["node node-0 stayed Ready"]
    hasty = _sample(_node(ready="Unknown"), at=3)
    assert _broken("node-silent", ready, [hasty], ready, 5) == [
        "node node-0 was NotReady after 3.0 s already"
    ]
    assert _broken("node-gone", ready, [_sample()], _sample(_node("again"))) == []
    assert _broken("node-gone", ready, [ready], _sample()) == [
        "node node-0 is not registered again",
        "node node-0 was never gone",
    ]
    assert _broken("clock-ahead", ready, [late], ready) == ["node node-0 was NotReady after 42.0 s"]
