"""Plans given as JSON: changes of objects and of the scheduler's options are applied one after the other."""

import pytest
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.plan.engine import Engine
from dra_scheduler.plan.jsondoor import JsonDoor, apply_change
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.planner import Planner
from dra_scheduler.plan.questions import change, nodes, replay
from dra_scheduler.plan.questions.change import ChangeRequest
from dra_scheduler.plan.questions.nodes import NodeTypeRequest, PurchaseRequest
from dra_scheduler.plan.questions.replay import ArrivalRequest, ReplayRequest
from dra_scheduler.plan.setup import Setup
from dra_shared.api.codec import convert
from dra_shared.api.resources import DEVICE_CLASSES, NODES, RESOURCE_SLICES
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_34

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json


def _objects() -> Objects:
    shared = slice_json("n1", 1)
    shared["spec"]["devices"][0]["allowMultipleAllocations"] = True
    return Objects().with_objects(
        [
            (DEVICE_CLASSES, convert(DEVICE_CLASSES, class_json())),
            *((NODES, convert(NODES, node_json(f"n{i}"))) for i in range(2)),
            (RESOURCE_SLICES, convert(RESOURCE_SLICES, shared)),
        ]
    )


def _pod(name: str) -> JsonObject:
    return {"apiVersion": "v1", **pod_json(name, claims={"gpu": name})}


def _claim(name: str) -> JsonObject:
    return {"apiVersion": "resource.k8s.io/v1", **claim_json(name)}


def _planner() -> Planner:
    return Planner(_objects(), Engine(Setup.of(SchedulerConfig())))


def test_changes_of_version_gates_nodes_and_configuration_accumulate() -> None:
    older = apply_change(_planner(), ChangeRequest(kubernetes_version="1.34"))
    gates = older.setup.config(older.objects).gates
    assert (gates.version, gates.enabled("DRAConsumableCapacity")) == (V1_34, False)
    gated = apply_change(older, ChangeRequest(feature_gates="DRAConsumableCapacity=true"))
    smaller = apply_change(gated, ChangeRequest(remove=("n1",), feature_gates="DRADeviceTaints=true"))
    gates = smaller.setup.config(smaller.objects).gates
    assert gates.version == V1_34
    assert gates.all_enabled(["DRAConsumableCapacity", "DRADeviceTaints"])
    assert list(smaller.objects.of(NODES)) == ["n0"]
    assert not smaller.objects.of(RESOURCE_SLICES)
    weights = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"score": {"disabled": [{"name": "*"}]}}}],
    }
    configured = apply_change(smaller, ChangeRequest(config=weights))
    assert configured.setup.config(configured.objects).loaded is not None
    with pytest.raises(ValueError, match="Kind"):
        apply_change(smaller, ChangeRequest(config={"profiles": 7})).drain(["n0"])


def test_a_replay_tries_versions_and_gates_in_order() -> None:
    arrivals = tuple(ArrivalRequest(at=0, object=_pod(name)) for name in "ab")
    changes = (
        ChangeRequest(name="before shares", kubernetes_version="1.34"),
        ChangeRequest(feature_gates="DRAConsumableCapacity=true"),
        ChangeRequest(remove=("n1",)),
    )
    asked = ReplayRequest(arrivals=arrivals, objects=tuple(map(_claim, "ab")), changes=changes)
    answer = replay.QUESTION.ask(JsonDoor(_planner()), asked)
    assert [(course.name, course.placed) for course in answer.courses] == [
        ("as it is", 2), ("before shares", 1), ("change 2", 2), ("change 3", 0),
    ]  # fmt: skip


def test_a_plan_may_use_another_supported_version() -> None:
    door = JsonDoor(_planner())
    assert change.QUESTION.ask(door, ChangeRequest(kubernetes_version="1.34")).pods == 0
    with pytest.raises(ValueError, match=r"1\.2"):
        change.QUESTION.ask(door, ChangeRequest(kubernetes_version="1.2"))


def test_a_node_type_may_add_device_classes() -> None:
    parts = [
        {"apiVersion": "v1", **node_json("x")},
        *({"apiVersion": "resource.k8s.io/v1", **each} for each in (slice_json("x", 1), class_json())),
    ]
    type_ = NodeTypeRequest(name="x", price=2, objects=tuple(parts))
    asked = PurchaseRequest(types=(type_,), objects=(_claim("a"), _pod("a")))
    answer = nodes.QUESTION.ask(JsonDoor(Planner(Objects())), asked)
    assert (answer.cost, answer.unplaced, answer.uncertain) == (2, (), ())
