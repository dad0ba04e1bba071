"""Values that selectors ask for and no device has, with the nearest existing ones."""

from typing import Any

import pytest
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.explain.text import render_class
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, V1_37, Version

from tests.scheduler.explain.worlds import alternatives_claim, devices, driver_class, explain
from tests.scheduler.objects import DRIVER, claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.running import condition, events, run_scheduler
from tests.support.cases import each_case
from tests.support.fakeapi import FakeApi
from tests.support.waiting import until

_ATTRIBUTES = {"productName": {"string": "NVIDIA A100-SXM4-40GB"}, "typeName": {"string": "gpu"}}


def _class(expression: str, **spec: Any) -> JsonObject:
    return class_json(selectors=[{"cel": {"expression": expression}}], **spec)


def _of(name: str) -> str:
    return f"device.attributes['{DRIVER}'].{name}"


async def _event(*objects: JsonObject, pod: JsonObject | None = None) -> str:
    api = FakeApi(node_json("a"), slice_json("a", 2, attributes=_ATTRIBUTES), *objects)
    async with run_scheduler(api):
        api.add(pod or pod_json("p", claims={"gpu": "c"}))
        await until(lambda: condition(api, "p"))
        await until(lambda: events(api, "p"))
        # The condition stays upstream's.
        assert "nearest" not in condition(api, "p")["message"]
    return events(api, "p")[0]


async def test_a_class_that_selects_a_value_of_no_device_shows_the_nearest_value() -> None:
    text = 'class gpu: no device has productName "NVIDIA A100", nearest seen "NVIDIA A100-SXM4-40GB"]'
    assert (await _event(_class(f"{_of('productName')} == 'NVIDIA A100'"), claim_json("c"))).endswith(text)


async def test_a_request_that_selects_a_value_of_no_device_shows_the_nearest_value() -> None:
    selectors = [{"cel": {"expression": f"{_of('productName')} in ['H100', 'NVIDIA A100']"}}]
    text = 'request gpu: no device has productName "H100" or "NVIDIA A100", nearest seen "NVIDIA A100-SXM4-40GB"]'
    claim = claim_json("c", request={"selectors": selectors})
    assert (await _event(class_json(), claim)).endswith(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("type", f'no device has attribute "type" of {DRIVER}, nearest seen "typeName"'),
        ("zone", f'no device has attribute "zone" of {DRIVER}, seen productName, typeName'),
    ],
)
async def test_a_selector_on_an_attribute_of_no_device_shows_the_nearest_attribute(
    name: str, text: str
) -> None:
    device_class = _class(f"device.driver == '{DRIVER}' && {_of(name)} == 'gpu'")
    assert f"class gpu: {text}" in await _event(device_class, claim_json("c"))


async def test_the_class_of_an_extended_resource_has_its_shortfalls() -> None:
    device_class = _class(f"{_of('type')} == 'gpu'", extendedResourceName="example.com/gpu")
    pod = pod_json("p", requests={"example.com/gpu": "1"})
    assert 'no device has attribute "type"' in await _event(device_class, pod=pod)


async def test_a_requested_value_that_some_device_has_is_not_a_shortfall() -> None:
    taken = _class(f"{_of('productName')} == 'NVIDIA A100-SXM4-40GB' && {_of('typeName')} == 'gpu'")
    assert "no device has" not in await _event(taken, claim_json("c", request={"count": 3}))


async def test_shortfalls_of_a_class_are_found_without_a_pod() -> None:
    expression = f"device.driver == '{DRIVER}' && {_of('type')} == 'gpu'"
    api = FakeApi(_class(expression), slice_json("a", 2, attributes=_ATTRIBUTES))
    async with run_scheduler(api) as (scheduler, _):
        report = scheduler.explainer.device_class("gpu")
        assert scheduler.explainer.device_class("other") is None
        assert report is not None
        assert render_class(report) == (
            "class gpu: selects 0 of 2 devices\n"
            f"  selector #0, true for 0 devices: {expression}\n"
            "    2 devices: CEL runtime error: no such key: type\n"
            f'    no device has attribute "type" of {DRIVER}, nearest seen "typeName"\n'
        )
        api.add(slice_json("b", 1, attributes={"type": {"string": "gpu"}}))
        await until(lambda: scheduler.manager.slices.get("b-gpus"))
        report = scheduler.explainer.device_class("gpu")
        assert report is not None
        assert (report.selected, report.devices) == (1, 3)
        assert report.selectors[0].shortfalls == ()


def _shortfalls(
    claim: JsonObject, *objects: JsonObject, config: SchedulerConfig | None = None
) -> tuple[str, ...]:
    """Return the shortfalls of a pod with the claim in a world with typical devices."""
    gpu = {
        "attributes": {**_ATTRIBUTES, "dra.net/numa": {"int": 0}},
        "capacity": {"memory": {"value": "40Gi"}},
    }
    mig = {"attributes": {"typeName": {"string": "mig"}, "profile": {"string": "1g.5gb"}}}
    world = [
        node_json("n", unschedulable=True),
        devices("n", {"name": "g0", **gpu}, {"name": "m0", **mig}),
        devices("n", {"name": "nic0", "attributes": {"rail": {"int": 1}}}, driver="nic.example.com"),
        driver_class("gpu", also=f"{_of('typeName')} == 'gpu'"),
        driver_class("nic", driver="nic.example.com"),
    ]
    pod = pod_json("p", claims={"gpu": "c"})
    return explain("p", *world, claim, pod, *objects, config=config).shortfalls


def _claim_with_selector(expression: str, device_class: str = "gpu") -> JsonObject:
    request = {"deviceClassName": device_class, "selectors": [{"cel": {"expression": expression}}]}
    return claim_json("c", request=request)


@each_case(
    ("expression", "text"),
    [
        (
            "device.attributes['gpu_example_com'].typeName == 'gpu'",
            'no device has attribute "typeName" of gpu_example_com, nearest domain seen "gpu.example.com"',
        ),
        (
            "device.attributes['dra.nett'].numa == 0",
            'no device has attribute "numa" of dra.nett, nearest domain seen "dra.net"',
        ),
        (
            "device.driver == 'gpu_example_com'",
            'no device is of driver "gpu_example_com", nearest seen "gpu.example.com"',
        ),
        (
            f"device.capacity['{DRIVER}'].memroy.compareTo(quantity('1Gi')) > 0",
            f'no device has capacity "memroy" of {DRIVER}, nearest seen "memory"',
        ),
        (
            f"{_of('profile')} == '1g.5gb'",
            f'no device of class gpu has attribute "profile" of {DRIVER}, seen numa, productName, typeName',
        ),
        (
            f"{_of('typeName')} == 'mig'",
            'no device of class gpu has typeName "mig", nearest seen "gpu"',
        ),
    ],
)
def test_names_that_no_device_has_are_explained_by_the_nearest(expression: str, text: str) -> None:
    [found] = _shortfalls(_claim_with_selector(expression))
    assert found.startswith(f"request gpu: {text.partition(', seen ')[0]}")
    assert "nearest" not in text or found.endswith(text.partition(", ")[2])


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (
            {"matchAttribute": f"{DRIVER}/typeNam"},
            f'no device of class gpu has attribute "typeNam" of {DRIVER}, nearest seen "typeName"',
        ),
        (
            {"distinctAttribute": "dra_net/numa"},
            'no device of class gpu has attribute "numa" of dra_net, nearest domain seen "dra.net"',
        ),
        ({"matchAttribute": f"{DRIVER}/typeNam", "requests": ["other"]}, None),
        ({"matchAttribute": "dra.net/numa"}, None),
    ],
)
def test_a_constraint_on_a_missing_attribute_gets_a_hint(constraint: JsonObject, text: str | None) -> None:
    found = _shortfalls(claim_json("c", constraints=[constraint]))
    assert found == ((f"constraint #0 of claim default/c: {text}",) if text else ())


def test_a_constraint_names_the_request_that_cannot_meet_it() -> None:
    claim = claim_json("c", constraints=[{"matchAttribute": "dra.net/numa"}])
    exactly = {"deviceClassName": "nic", "allocationMode": "ExactCount", "count": 1}
    claim["spec"]["devices"]["requests"].append({"name": "nic", "exactly": exactly})
    [found] = _shortfalls(claim)
    assert found.startswith(
        'constraint #0 of claim default/c: no device of class nic has attribute "numa" of dra.net'
    )


def test_shortfalls_of_alternatives_carry_their_names() -> None:
    claim = alternatives_claim("c", big="gpu", other="nic")
    first = claim["spec"]["devices"]["requests"][0]["firstAvailable"]
    first[0]["selectors"] = [{"cel": {"expression": f"{_of('productName')} == 'H100'"}}]
    [found] = _shortfalls(claim)
    assert found.startswith('request r/big: no device has productName "H100", nearest seen')


@pytest.mark.parametrize("version", [V1_36, V1_37])
def test_a_capacity_name_that_no_device_has_is_a_shortfall(version: Version) -> None:
    for name in ("memory", f"{DRIVER}/memory", "memroy"):
        claim = claim_json("c", request={"capacity": {"requests": {name: "1Gi"}}})
        config = SchedulerConfig(gates=FeatureGates(version, DRAConsumableCapacity=True))
        found = _shortfalls(claim, config=config)
        assert bool(found) == (name != "memory")
        if found:
            assert 'nearest seen "memory"' in found[0]


def _extended_shortfalls(
    resource: str, *objects: JsonObject, gates: FeatureGates | None = None
) -> tuple[str, ...]:
    pod = pod_json("p", requests={resource: "1"})
    config = SchedulerConfig(gates=gates or FeatureGates(V1_37))
    return explain("p", node_json("n"), *objects, pod, config=config).shortfalls


def test_an_extended_resource_without_a_class_gets_a_hint() -> None:
    known = class_json("gpu", extendedResourceName="example.com/gpu")
    [found] = _extended_shortfalls("example.com/gpus", known)
    assert found == (
        "extended resource example.com/gpus: no device class has it as its extendedResourceName, "
        'and no node offers it, nearest seen "example.com/gpu"'
    )
    [found] = _extended_shortfalls("deviceclass.resource.kubernetes.io/gpus", known)
    assert found == (
        "extended resource deviceclass.resource.kubernetes.io/gpus: there is no device class gpus, "
        'nearest seen "gpu"'
    )


def test_an_extended_resource_that_a_node_offers_gets_no_hint() -> None:
    node = node_json("m")
    node["status"]["allocatable"]["example.com/gpu"] = "0"
    assert _extended_shortfalls("example.com/gpu", node) == ()


def test_an_extended_resource_gets_a_hint_if_the_feature_is_disabled() -> None:
    known = class_json("gpu", extendedResourceName="example.com/gpu")
    [found] = _extended_shortfalls(
        "example.com/gpu", known, gates=FeatureGates(V1_36, DRAExtendedResource=False)
    )
    assert found.endswith("the feature gate DRAExtendedResource is disabled")


def test_a_missing_attribute_with_the_name_of_a_capacity_gets_a_hint() -> None:
    [found] = _shortfalls(_claim_with_selector(f"{_of('memory')} == '40Gi'"))
    assert found == (
        f'request gpu: no device has attribute "memory" of {DRIVER}, but there is a capacity of that name'
    )


def test_names_that_are_not_similar_are_not_proposed() -> None:
    [found] = _shortfalls(_claim_with_selector("device.driver == 'tpu.google.com'"))
    assert found.endswith('no device is of driver "tpu.google.com", seen gpu.example.com, nic.example.com')


def test_a_missing_class_shows_the_nearest_existing_one() -> None:
    found = _shortfalls(claim_json("c", request={"deviceClassName": "gpus"}))
    assert found == ('request gpu: there is no device class gpus, nearest seen "gpu"',)


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({"zone": "a"}, None),
        ({"zone": "c"}, "nodeSelector: no node has the label zone=c, seen a, b"),
        ({"zon": "a"}, 'nodeSelector: no node has the label zon, nearest seen "zone"'),
        ({"other.example.com/x": "a"}, "nodeSelector: no node has the label other.example.com/x"),
    ],
)
def test_labels_that_no_node_has_are_named(selector: dict[str, str], text: str | None) -> None:
    nodes = [node_json(name, labels={"zone": name}) for name in ("a", "b")]
    pod = pod_json("p", nodeSelector=selector)
    assert explain("p", *nodes, pod).shortfalls == ((text,) if text else ())


def test_labels_of_a_required_node_affinity_that_no_node_has_are_named() -> None:
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["c", "d"]}]},
        {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = pod_json("p", affinity={"nodeAffinity": required})
    report = explain("p", node_json("a", labels={"zone": "a"}), pod)
    assert report.shortfalls == ("node affinity: no node has the label zone=c or zone=d, seen a",)


def test_shortfalls_of_a_pod_with_scheduling_gates_are_reported() -> None:
    pod = pod_json("p", nodeSelector={"zone": "a"}, schedulingGates=[{"name": "example.com/gate"}])
    report = explain("p", node_json("n"), pod)
    assert report.state == "pending: gated"
    assert report.shortfalls == ("nodeSelector: no node has the label zone",)


def test_topology_keys_that_no_node_has_are_named() -> None:
    spread = {"maxSkew": 1, "topologyKey": "zon", "whenUnsatisfiable": "DoNotSchedule"}
    term = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "x"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    soft = {**spread, "topologyKey": "any", "whenUnsatisfiable": "ScheduleAnyway"}
    pod = pod_json("p", topologySpreadConstraints=[spread, soft], affinity=affinity)
    report = explain("p", node_json("a", labels={"zone": "a"}), pod)
    assert report.shortfalls == (
        'topology spread constraint: no node has the label zon, nearest seen "zone"',
        "pod affinity: no node has the label rack",
    )
