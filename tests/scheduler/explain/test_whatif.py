"""Single changes after which a pod would fit."""

import pytest
from dra_shared.jsontypes import JsonObject

from tests.scheduler.explain.worlds import devices, driver_class, explain
from tests.scheduler.objects import DRIVER, claim_json, class_json, node_json, pod_json

_KIND = f"device.attributes['{DRIVER}'].kind"
_POD = pod_json("p", claims={"gpu": "c"})


def _change(pod: JsonObject, *objects: JsonObject) -> str:
    change = explain("p", *objects, pod).change
    return f"{change.kind}: {change.text}" if change is not None else ""


def _device(name: str, kind: str, needs: str = "", **more: object) -> JsonObject:
    consumed = [{"counterSet": "set", "counters": {"memory": {"value": needs}}}]
    return {
        "name": name,
        "attributes": {"kind": {"string": kind}},
        **({"consumesCounters": consumed} if needs else {}),
        **more,
    }


def _holder(device: str) -> JsonObject:
    claim = claim_json("held")
    result = {"request": "gpu", "driver": DRIVER, "pool": "n", "device": device}
    claim["status"] = {"allocation": {"devices": {"results": [result]}}}
    return claim


def test_deleting_a_claim_that_holds_counters_is_proposed_before_changing_the_selector() -> None:
    counters = devices("n")
    counters["metadata"]["name"] = "counters"
    counters["spec"]["sharedCounters"] = [{"name": "set", "counters": {"memory": {"value": "2"}}}]
    parts = devices("n", _device("whole", "whole", "2"), _device("half", "half", "1"))
    for piece in (counters, parts):
        piece["spec"]["pool"]["resourceSliceCount"] = 2
    claim = claim_json("c", request={"selectors": [{"cel": {"expression": f"{_KIND} == 'whole'"}}]})
    world = [node_json("n"), counters, parts, driver_class("gpu"), _holder("half"), claim]
    assert _change(_POD, *world) == "free: if claim default/held gave its devices back"


def test_removing_a_constraint_is_proposed_before_changing_the_selector() -> None:
    request = {"count": 2, "selectors": [{"cel": {"expression": f"{_KIND} == 'a'"}}]}
    claim = claim_json("c", request=request, constraints=[{"matchAttribute": f"{DRIVER}/root"}])
    roots = [("d0", "a", "0"), ("d1", "a", "1"), ("d2", "b", "0")]
    pieces = [
        {"name": name, "attributes": {"kind": {"string": kind}, "root": {"string": root}}}
        for name, kind, root in roots
    ]
    change = _change(_POD, node_json("n"), devices("n", *pieces), driver_class("gpu"), claim)
    assert change == f"constraint: if claim default/c had no constraint #0: matchAttribute {DRIVER}/root"


def test_a_class_that_selects_devices_of_another_node_is_not_proposed_for_change() -> None:
    """Both taints of a device would have to be tolerated; the other node's devices are of another driver."""
    taints = [{"key": key, "effect": "NoSchedule"} for key in ("one", "two")]
    other = devices("m", {"name": "d"}, driver="other.example.com")
    tainted = devices("n", _device("d", "a", taints=taints))
    world = [node_json("n"), node_json("m"), tainted, other, driver_class("gpu"), claim_json("c")]
    assert _change(_POD, *world) == ""


@pytest.mark.parametrize(("wanted", "text"), [(5, "asked for 2 instead of 5"), (2, "")])
def test_changes_for_extended_resources_are_tried_with_their_generated_claim(wanted: int, text: str) -> None:
    known = class_json("gpu", extendedResourceName="example.com/gpu")
    pod = pod_json("p", requests={"example.com/gpu": str(wanted)})
    change = _change(pod, node_json("n"), devices("n", _device("d0", "a"), _device("d1", "a")), known)
    start = "count: if the pod's request for extended resources of class gpu"
    assert change == (f"{start} {text}" if text else "")


def test_a_pod_with_extended_resources_is_not_asked_to_tolerate_a_device_taint() -> None:
    known = class_json("gpu", extendedResourceName="example.com/gpu")
    tainted = _device("d0", "a", taints=[{"key": "one", "effect": "NoSchedule"}])
    pod = pod_json("p", requests={"example.com/gpu": "1"})
    assert _change(pod, node_json("n"), devices("n", tainted), known) == ""


def test_changing_the_hostname_label_is_not_proposed() -> None:
    pod = pod_json("p", nodeSelector={"kubernetes.io/hostname": "m"})
    assert _change(pod, node_json("n")) == "node: if the pod had no nodeSelector kubernetes.io/hostname"


def test_a_template_that_does_not_exist_is_named() -> None:
    pod = pod_json("p")
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "nope"}]
    text = "template: until claim gpu is made from ResourceClaimTemplate default/nope, which does not exist"
    assert _change(pod, node_json("n")) == text


def test_the_largest_capacity_request_that_fits_is_proposed() -> None:
    shared = _device("d0", "a", allowMultipleAllocations=True, capacity={"memory": {"value": "10Gi"}})
    held = claim_json("held")
    share = {"shareID": "11111111-1111-1111-1111-111111111111", "consumedCapacity": {"memory": "6Gi"}}
    result = {"request": "gpu", "driver": DRIVER, "pool": "n", "device": "d0", **share}
    held["status"] = {"allocation": {"devices": {"results": [result]}}}
    claim = claim_json("c", request={"capacity": {"requests": {"memory": "5Gi"}}})
    change = _change(_POD, node_json("n"), devices("n", shared), driver_class("gpu"), held, claim)
    text = "if request gpu of claim default/c asked for 4Gi of capacity memory instead of 5Gi"
    assert change == f"capacity: {text}"
