"""Equal nodes are found, and what makes a node different."""

from typing import Any

from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.purchase.standing import groups
from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource

from tests.scheduler.objects import claim_json, node_json, pod_json, slice_json
from tests.support.fakeapi import Json

_KINDS: dict[str, Resource[Any]] = {
    each.kind: each for each in (NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES)
}


def _objects(*objects: Json) -> Objects:
    nodes = [each for i in range(4) for each in (node_json(f"n{i}"), slice_json(f"n{i}", 2))]
    every = [*nodes, *objects]
    return Objects().with_objects(
        (_KINDS[each["kind"]], convert(_KINDS[each["kind"]], each)) for each in every
    )


def _waiting(**spec: Any) -> Pod:
    return convert(PODS, pod_json("p", **spec))


def test_equal_nodes_are_one_group() -> None:
    assert groups(_objects(), [_waiting()]) == [["n0", "n1", "n2", "n3"]]
    # Pods that take the same of their nodes leave them equal.
    same = [pod_json(f"q{i}", requests={"cpu": "1"}, nodeName=f"n{i}") for i in (1, 3)]
    assert groups(_objects(*same), [_waiting()]) == [["n0", "n2"], ["n1", "n3"]]


def test_what_makes_a_node_different() -> None:
    for other in (
        node_json("n3", labels={"zone": "a"}),
        node_json("n3", taints=[{"key": "k", "effect": "NoSchedule"}]),
        slice_json("n3", 1),
        pod_json("q", requests={"cpu": "1"}, nodeName="n3"),
        pod_json("q", labels={"app": "x"}, nodeName="n3"),
    ):
        assert groups(_objects(other), [_waiting()]) == [["n0", "n1", "n2"], ["n3"]]


def test_devices_that_are_in_use() -> None:
    objects = []
    for node, device in (("n0", 0), ("n1", 1), ("n2", 0)):
        claim = claim_json(node)
        result = {"request": "gpu", "driver": "gpu.example.com", "pool": node, "device": f"gpu-{device}"}
        claim["status"] = {"allocation": {"devices": {"results": [result]}}}
        objects += [claim, pod_json(node, claims={"gpu": node}, nodeName=node)]
    assert groups(_objects(*objects), [_waiting()]) == [["n0", "n2"], ["n1"], ["n3"]]


def test_pods_that_may_go_to_one_node_only() -> None:
    alone = [["n0"], ["n1"], ["n2"], ["n3"]]
    assert groups(_objects(), [_waiting(nodeSelector={"kubernetes.io/hostname": "n3"})]) == alone
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "v"}}
    assert groups(_objects(), [_waiting(), _waiting(volumes=[volume])]) == alone
