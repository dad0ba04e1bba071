"""Groups of equal nodes, and the properties that make nodes differ."""

from typing import Any

from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.purchase.standing import groups
from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import claim_json, node_json, pod_json, slice_json

_KINDS: dict[str, Resource[Any]] = {
    each.kind: each for each in (NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES)
}


def _objects(*objects: JsonObject) -> Objects:
    nodes = [each for i in range(4) for each in (node_json(f"n{i}"), slice_json(f"n{i}", 2))]
    every = [*nodes, *objects]
    return Objects().with_objects(
        (_KINDS[each["kind"]], convert(_KINDS[each["kind"]], each)) for each in every
    )


def _pending_pod(**spec: Any) -> Pod:
    return convert(PODS, pod_json("p", **spec))


def test_equal_nodes_are_one_group() -> None:
    assert groups(_objects(), [_pending_pod()]) == [["n0", "n1", "n2", "n3"]]
    # Pods that use the same amounts leave their nodes equal.
    same = [pod_json(f"q{i}", requests={"cpu": "1"}, nodeName=f"n{i}") for i in (1, 3)]
    assert groups(_objects(*same), [_pending_pod()]) == [["n0", "n2"], ["n1", "n3"]]


def test_nodes_with_different_labels_taints_devices_or_pods_are_grouped_apart() -> None:
    for other in (
        node_json("n3", labels={"zone": "a"}),
        node_json("n3", taints=[{"key": "k", "effect": "NoSchedule"}]),
        slice_json("n3", 1),
        pod_json("q", requests={"cpu": "1"}, nodeName="n3"),
        pod_json("q", labels={"app": "x"}, nodeName="n3"),
    ):
        assert groups(_objects(other), [_pending_pod()]) == [["n0", "n1", "n2"], ["n3"]]


def test_nodes_with_different_devices_in_use_are_grouped_apart() -> None:
    objects = []
    for node, device in (("n0", 0), ("n1", 1), ("n2", 0)):
        claim = claim_json(node)
        result = {"request": "gpu", "driver": "gpu.example.com", "pool": node, "device": f"gpu-{device}"}
        claim["status"] = {"allocation": {"devices": {"results": [result]}}}
        objects += [claim, pod_json(node, claims={"gpu": node}, nodeName=node)]
    assert groups(_objects(*objects), [_pending_pod()]) == [["n0", "n2"], ["n1"], ["n3"]]


def test_a_node_that_a_pod_is_restricted_to_is_grouped_apart() -> None:
    alone = [["n0"], ["n1"], ["n2"], ["n3"]]
    assert groups(_objects(), [_pending_pod(nodeSelector={"kubernetes.io/hostname": "n3"})]) == alone
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "v"}}
    assert groups(_objects(), [_pending_pod(), _pending_pod(volumes=[volume])]) == alone
