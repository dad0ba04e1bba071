"""Explanations of scheduled pods that do not run."""

from dra_scheduler.explain.progress import binding_waits, waits_for
from dra_shared.api.codec import convert
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resources import NODES, PODS, RESOURCE_CLAIMS
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import DRIVER, claim_json, node_json, pod_json


def _pod(**status: object) -> Pod:
    obj = pod_json("p", claims={"gpu": "c"}, nodeName="node-1")
    return convert(PODS, {**obj, "status": {"phase": "Pending", **status}})


def _node(ready: str = "True") -> Node:
    obj = node_json("node-1")
    obj["status"]["conditions"] = [{"type": "Ready", "status": ready, "reason": "KubeletStopped"}]
    return convert(NODES, obj)


def _container(**waiting: str) -> JsonObject:
    return {"name": "main", "state": {"waiting": waiting}}


def test_a_pod_whose_claims_are_not_prepared_waits_for_the_driver() -> None:
    conditions = [{"type": "PodReadyToStartContainers", "status": "False"}]
    pod = _pod(containerStatuses=[_container(reason="ContainerCreating")], conditions=conditions)
    assert waits_for(pod, _node()) == (
        "container main: ContainerCreating",
        "the kubelet has not prepared the claims, or not made the sandbox yet",
    )


def test_a_container_that_does_not_start_shows_its_reason() -> None:
    pod = _pod(containerStatuses=[_container(reason="ErrImagePull", message="no such image")])
    assert waits_for(pod, _node()) == ("container main: ErrImagePull: no such image",)


def test_a_node_that_is_missing_or_not_ready_is_named() -> None:
    assert waits_for(_pod(), None) == ("node node-1 does not exist",)
    assert waits_for(_pod(), _node("Unknown")) == (
        "node node-1 is not ready: KubeletStopped",
        "the kubelet of node node-1 has reported nothing yet",
    )


def test_a_running_pod_waits_for_nothing() -> None:
    assert waits_for(_pod(phase="Running"), _node()) == ()


def test_binding_conditions_that_a_device_waits_for_are_named() -> None:
    result = {
        "request": "gpu",
        "driver": DRIVER,
        "pool": "n",
        "device": "d0",
        "bindingConditions": ["ready", "attached", "up"],
        "bindingFailureConditions": ["broken"],
    }
    conditions = [
        {"type": "ready", "status": "True"},
        {"type": "up", "status": "False", "reason": "Later"},
        {"type": "broken", "status": "True", "reason": "Cable", "message": "is cut"},
    ]
    claim = claim_json("c")
    claim["status"] = {
        "allocation": {"devices": {"results": [result]}},
        "devices": [{"driver": DRIVER, "pool": "n", "device": "d0", "conditions": conditions}],
    }
    where = f"device {DRIVER}/n/d0 of claim default/c"
    assert binding_waits([convert(RESOURCE_CLAIMS, claim)]) == (
        f"{where}: binding failure condition broken is true: Cable: is cut",
        f"{where}: driver {DRIVER} has not set binding condition attached",
        f"{where}: binding condition up is False: Later",
    )
    assert binding_waits([convert(RESOURCE_CLAIMS, claim_json("c"))]) == ()
