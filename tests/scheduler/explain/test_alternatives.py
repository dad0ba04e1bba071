"""The number of devices that suit a request, whether or not the search reached it."""

from dra_scheduler.explain.report import RequestReport
from dra_shared.jsontypes import JsonObject

from tests.scheduler.explain.worlds import alternatives_claim, devices, driver_class, explain, text_of
from tests.scheduler.objects import DRIVER, claim_json, node_json, pod_json

_KIND = f"device.attributes['{DRIVER}'].kind"


def _device(name: str, kind: str, **more: object) -> JsonObject:
    return {"name": name, "attributes": {"kind": {"string": kind}}, **more}


_TAINT = {"key": "sick", "effect": "NoSchedule"}
_WORLD: list[JsonObject] = [
    node_json("n"),
    devices(
        "n",
        _device("w0", "whole"),
        _device("w1", "whole"),
        _device("p0", "part"),
        _device("p1", "part"),
        _device("p2", "part", taints=[_TAINT]),
    ),
    driver_class("whole", also=f"{_KIND} == 'whole'"),
    driver_class("part", also=f"{_KIND} == 'part'"),
    driver_class("none", also=f"{_KIND} == 'none'"),
]
_NO_CPU = {"cpu": "500"}


def _holder(name: str, device: str) -> JsonObject:
    claim = claim_json(name, request={"deviceClassName": "whole"})
    result = {"request": "gpu", "driver": DRIVER, "pool": "n", "device": device}
    claim["status"] = {"allocation": {"devices": {"results": [result]}}}
    return claim


def _requests(*objects: JsonObject) -> dict[str, RequestReport]:
    report = explain("p", *_WORLD, pod_json("p", claims={"r": "c"}, requests=_NO_CPU), *objects)
    return {request.request: request for request in report.nodes[0].requests}


def test_an_untried_alternative_counts_only_devices_that_it_could_get() -> None:
    found = _requests(alternatives_claim("c", first="whole", second="part", third="none"))
    assert {name: request.suitable for name, request in found.items()} == {
        "r/first": 2,
        "r/second": 2,
        "r/third": 0,
    }
    assert {name: request.reached for name, request in found.items()} == {
        "r/first": True,
        "r/second": False,
        "r/third": False,
    }
    reasons = {device.device: device.reasons for device in found["r/second"].devices}
    assert reasons[f"{DRIVER}/n/p2"] == ("taint sick:NoSchedule is not tolerated",)


def test_an_untried_alternative_names_the_alternative_that_was_chosen() -> None:
    pod = pod_json("p", claims={"r": "c"}, requests=_NO_CPU)
    lines = text_of(explain("p", *_WORLD, pod, alternatives_claim("c", first="whole", second="part")))
    at = lines.index("request r/second of claim default/c (1 of class part, 2 would suit)")
    assert lines[at + 1] == "not taken: alternative r/first is"


def test_devices_that_the_search_did_not_reach_are_evaluated() -> None:
    [request] = _requests(claim_json("c", request={"deviceClassName": "whole"}), _holder("h", "w1")).values()
    assert request.suitable == 1
    reasons = {device.device: device.reasons for device in request.devices}
    assert reasons[f"{DRIVER}/n/w1"] == ("in use by claim default/h",)


def test_a_request_after_an_unsatisfiable_one_is_evaluated_by_itself() -> None:
    claim = claim_json("c", request={"deviceClassName": "none"})
    exactly = {"deviceClassName": "part", "allocationMode": "ExactCount", "count": 1}
    claim["spec"]["devices"]["requests"].append({"name": "later", "exactly": exactly})
    pod = pod_json("p", claims={"r": "c"})
    report = explain("p", *_WORLD, claim, pod)
    later = report.nodes[0].requests[1]
    assert (later.suitable, later.reached) == (2, False)
    lines = text_of(report)
    at = lines.index("request later of claim default/c (1 of class part, 2 would suit)")
    assert lines[at + 1] == "not tried: what comes before it cannot be had"


def test_a_selector_on_a_missing_attribute_does_not_show_a_capacity_of_that_name() -> None:
    pod, selector = (
        pod_json("p", claims={"r": "c"}),
        f"device.attributes['{DRIVER}'].?memory.orValue('') == '80Gi'",
    )
    claim = claim_json("c", request={"selectors": [{"cel": {"expression": selector}}]})
    memory = {"name": "g", "capacity": {"memory": {"value": "80Gi"}}}
    report = explain("p", node_json("n"), devices("n", memory), driver_class("gpu"), claim, pod)
    [detail] = report.nodes[0].requests[0].devices[0].details
    assert (detail.saw, detail.lacks, detail.values) == ({}, ("memory",), "no attribute memory")


def test_a_scheduled_pod_shows_the_alternative_that_it_was_allocated() -> None:
    """The first alternative is free again, but the pod has another one."""
    claim = alternatives_claim("c", first="whole", second="part")
    result = {"request": "r/second", "driver": DRIVER, "pool": "n", "device": "p0"}
    claim["status"] = {"allocation": {"devices": {"results": [result]}}}
    report = explain("p", *_WORLD, claim, pod_json("p", claims={"r": "c"}, nodeName="n"))
    first, second = report.nodes[0].requests
    assert (first.taken, second.taken) == (0, 1)
    lines = text_of(report)
    at = lines.index("request r/first of claim default/c (1 of class whole, 2 would suit)")
    assert lines[at + 1] == "not taken: alternative r/second is"
    assert not any(line.startswith("not tried") for line in lines)
