"""Fields of an allocation result, and when cached results become stale."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from dra_scheduler.allocator import AllocatedState, AllocationError, Allocator, Features, Snapshot
from dra_scheduler.allocator.features import Implementation
from dra_shared.api.codec import convert
from dra_shared.api.resource import AllocationResult, DeviceClass
from dra_shared.api.resources import DEVICE_CLASSES
from dra_shared.version import V1_36, V1_37, Version

from tests.scheduler.allocator.worlds import (
    Comparison,
    World,
    claim_of,
    device_class,
    exactly,
    node,
    selector,
    slice_of,
)
from tests.support.cases import each_case


def _one(world: World) -> AllocationResult:
    results = world.allocator().allocate(world.node, world.claims)
    assert results is not None
    return results[0]


def _json(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def configured_class(name: str, *drivers: str) -> DeviceClass:
    config = [{"opaque": {"driver": driver, "parameters": {"of": name}}} for driver in drivers]
    return convert(DEVICE_CLASSES, {"metadata": {"name": name}, "spec": {"config": config}})


# Until 1.36 a claim's configuration comes once for each request that it names.
@pytest.mark.parametrize(("version", "times"), [(V1_36, 2), (V1_37, 1)], ids=str)
def test_configuration_of_classes_precedes_that_of_claims_and_is_not_repeated(
    version: Version, times: int
) -> None:
    own = [
        {"opaque": {"driver": "all", "parameters": {}}},
        {"requests": ["r1", "r2"], "opaque": {"driver": "two", "parameters": {}}},
        {"requests": ["r2/o1"], "opaque": {"driver": "sub", "parameters": {}}},
        {"requests": ["r2/o0"], "opaque": {"driver": "not-chosen", "parameters": {}}},
    ]
    options = [
        {
            "name": f"o{i}",
            "deviceClassName": "plain",
            "allocationMode": "ExactCount",
            "count": 1,
            "selectors": selector(text),
        }
        for i, text in enumerate(("kind=none", "true"))
    ]
    requests = [
        exactly("r0", deviceClassName="rich"),
        exactly("r1", deviceClassName="rich"),
        {"name": "r2", "firstAvailable": options},
    ]
    devices = [{"name": f"d{i}", "attributes": {"kind": {"string": "x"}}} for i in range(3)]
    world = World(
        features=replace(Features.all(), kubernetes=version),
        classes={"rich": configured_class("rich", "a", "b"), "plain": configured_class("plain", "c")},
        slices=[slice_of("s", devices)],
        claims=[claim_of(requests, config=own)],
    )

    found = [
        (item.source, item.requests, None if item.opaque is None else item.opaque.driver)
        for item in _one(world).devices.config
    ]

    assert found == [
        ("FromClass", ("r0", "r1"), "a"),
        ("FromClass", ("r0", "r1"), "b"),
        ("FromClass", ("r2/o1",), "c"),
        ("FromClaim", (), "all"),
        *[("FromClaim", ("r1", "r2"), "two")] * times,
        ("FromClaim", ("r2/o1",), "sub"),
    ]


def _zone(*values: str) -> dict[str, Any]:
    requirement = {"key": "zone", "operator": "In", "values": list(values)}
    return {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}


@each_case(
    ("spec", "device", "expected"),
    [
        ({"nodeName": "n0"}, {}, "n0"),
        ({"allNodes": True}, {}, None),
        ({"allNodes": True}, {"bindsToNode": True}, "n0"),
        ({"nodeSelector": _zone("a", "b")}, {}, _zone("a", "b")),
        ({"perDeviceNodeSelection": True}, {"nodeName": "n0"}, "n0"),
        ({"perDeviceNodeSelection": True}, {"allNodes": True}, None),
        ({"perDeviceNodeSelection": True}, {"nodeSelector": _zone("a")}, _zone("a")),
    ],
)
def test_node_selector_of_an_allocation_matches_the_nodes_that_reach_its_devices(
    spec: dict[str, Any], device: dict[str, Any], expected: object
) -> None:
    world = World(
        node=node("n0", zone="a"),
        slices=[slice_of("s", [{"name": "d", **device}], **spec)],
        claims=[claim_of([exactly()])],
    )
    if expected == "n0":
        requirement = {"key": "metadata.name", "operator": "In", "values": ["n0"]}
        expected = {"nodeSelectorTerms": [{"matchFields": [requirement]}]}

    found = _one(world).node_selector

    assert (None if found is None else _json(found)) == expected


def test_an_invalid_node_selector_is_an_error_only_when_its_device_is_tried() -> None:
    bad = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["x"]}]}]}
    devices: list[dict[str, Any]] = [{"name": "d0", "allNodes": True}, {"name": "d1", "nodeSelector": bad}]
    slices = [slice_of("s", devices, perDeviceNodeSelection=True)]
    one = World(node=node("n0"), slices=slices, claims=[claim_of([exactly()])])
    two = World(node=node("n0"), slices=slices, claims=[claim_of([exactly(count=2)])])

    assert [item.device for item in _one(one).devices.results] == ["d0"]
    with pytest.raises(AllocationError, match="failed to parse node selector"):
        two.allocator().allocate(two.node, two.claims)


def test_selectors_of_several_devices_are_joined() -> None:
    pool = {"resourceSliceCount": 1}
    world = World(
        node=node("n0", zone="a"),
        slices=[
            slice_of("s0", [{"name": "d"}], nodeSelector=_zone("a", "b"), pool={"name": "p", **pool}),
            slice_of("s1", [{"name": "d"}], nodeSelector=_zone("b", "a"), pool={"name": "q", **pool}),
            slice_of("s2", [{"name": "d"}], nodeSelector=_zone("a"), pool={"name": "r", **pool}),
        ],
        claims=[claim_of([exactly(count=3)])],
    )

    found = _one(world).node_selector

    assert found is not None
    assert [item.values for item in found.node_selector_terms[0].match_expressions] == [("a", "b"), ("a",)]


def test_allocation_of_a_shared_device_has_share_id_and_consumed_capacity() -> None:
    toleration = {"key": "sick", "operator": "Exists"}
    capacity = {
        "memory": {"value": "10Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi"}}}
    }
    device = {
        "name": "d",
        "allowMultipleAllocations": True,
        "capacity": capacity,
        "bindingConditions": ["example.com/ready"],
        "bindingFailureConditions": ["example.com/failed"],
        "taints": [{"key": "sick", "effect": "NoSchedule"}],
    }
    request = exactly(tolerations=[toleration], capacity={"requests": {"memory": "2048Mi"}})
    world = World(slices=[slice_of("s", [device])], claims=[claim_of([request])])
    allocator = Allocator(
        world.features,
        world.state,
        world.classes,
        world.slices,
        compile=Comparison,
        share_ids=lambda _: "share",
    )

    results = allocator.allocate(world.node, world.claims)

    assert results is not None
    assert _json(results[0].devices.results[0]) == {
        "request": "r0",
        "driver": "a.example.com",
        "pool": "p",
        "device": "d",
        "shareID": "share",
        "consumedCapacity": {"memory": "2Gi"},
        "tolerations": [toleration],
        "bindingConditions": ["example.com/ready"],
        "bindingFailureConditions": ["example.com/failed"],
    }


def test_share_ids_differ_between_claims_and_are_reproducible() -> None:
    device = {"name": "d", "allowMultipleAllocations": True}
    ids = set()
    for name in ("c0", "c1", "c0"):
        world = World(slices=[slice_of("s", [device])], claims=[claim_of([exactly()], name)])
        ids.add(_one(world).devices.results[0].share_id)

    assert len(ids) == 2
    assert None not in ids


def test_an_invalid_pool_is_an_error_only_if_no_valid_pool_satisfies_the_claim() -> None:
    bad = slice_of("s0", [{"name": "d"}, {"name": "d"}])
    good = slice_of("s1", [{"name": "d"}], pool={"name": "q"})
    claims = [claim_of([exactly()])]

    assert _one(World(slices=[bad, good], claims=claims)).devices.results[0].pool == "q"

    world = World(slices=[bad], claims=claims)
    with pytest.raises(AllocationError, match=r"^invalid resource pools were encountered$") as caught:
        world.allocator().allocate(world.node, claims)
    assert caught.value.only_this_node


def test_a_missing_class_is_an_error_for_all_nodes() -> None:
    world = World(claims=[claim_of([exactly(deviceClassName="none")])])

    with pytest.raises(AllocationError) as caught:
        world.allocator().allocate(world.node, world.claims)

    assert str(caught.value) == (
        "claim default/c0, request r0: could not retrieve device class none: "
        'deviceclass.resource.k8s.io "none" not found'
    )
    assert not caught.value.only_this_node


def test_each_call_reads_current_classes_and_allocations() -> None:
    classes = {"any": device_class(selector="kind=y")}
    state, claims = AllocatedState(), [claim_of([exactly()])]
    snapshot = Snapshot(
        Features.all(), [slice_of("s", [{"name": "d", "attributes": {"kind": {"string": "x"}}}])]
    )
    allocator = Allocator(Features.all(), state, classes, snapshot, compile=Comparison)
    here = node()

    assert allocator.allocate(here, claims) is None
    classes["any"] = device_class(selector="kind=x")
    results = allocator.allocate(here, claims)
    assert results is not None

    stamp = allocator.stamp("n0")
    state.hold("default/other", results[0])
    assert allocator.stamp("n0") != stamp
    assert allocator.allocate(here, claims) is None

    stamp = allocator.stamp("n0")
    state.hold("default/other", None)
    assert allocator.stamp("n0") != stamp
    assert allocator.allocate(here, claims) == results


def test_the_cache_stamp_of_a_node_is_unchanged_by_changes_on_other_nodes() -> None:
    state = AllocatedState()
    snapshot = Snapshot(Features.all())
    for name in ("n0", "n1"):
        snapshot.set_slice(slice_of(name, [{"name": "d"}], nodeName=name, pool={"name": name}))
    allocator = Allocator(Features.all(), state, {"any": device_class()}, snapshot, compile=Comparison)
    claims = [claim_of([exactly()])]
    results = [allocator.allocate(node(name), claims) for name in ("n0", "n1")]
    stamp = allocator.stamp("n0")

    assert results[1] is not None
    state.hold("default/c0", results[1][0])
    snapshot.delete_slice("n1")

    assert allocator.stamp("n0") == stamp


def test_a_pool_snapshot_that_was_built_for_other_features_is_rejected() -> None:
    with pytest.raises(ValueError, match="other features"):
        Allocator(Features.all(), AllocatedState(), {}, Snapshot(Features()))


def test_features_are_derived_from_feature_gates() -> None:
    assert Features.from_gates(()) == Features(implementation=Implementation.STABLE)
    assert not Features.from_gates(("DRADeviceBindingConditions",)).device_binding
    assert Features.from_gates(("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")).device_binding
    assert (
        Features.from_gates(
            (
                "DRAAdminAccess",
                "DRAConsumableCapacity",
                "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus",
                "DRADeviceTaints",
                "DRAListTypeAttributes",
                "DRAPartitionableDevices",
                "DRAPrioritizedList",
            )
        )
        == Features.all()
    )


@each_case(
    "newer",
    [
        "DRAConsumableCapacity",
        "DRADerivedAttributes",
        "DRADeviceBindingConditions",
        "DRADeviceCompatibilityGroups",
        "DRAFractionalCapacityRange",
        "DRAListTypeAttributes",
        "DRAOptionalNodeOperations",
    ],
)
def test_the_stable_allocator_is_used_only_if_no_newer_feature_is_enabled(newer: str) -> None:
    older = {"DRAAdminAccess", "DRAResourceClaimDeviceStatus", "DRAPartitionableDevices"}

    assert Features.from_gates(older).implementation is Implementation.STABLE
    assert Features.from_gates({*older, newer}).implementation is not Implementation.STABLE


def test_the_stable_allocator_ignores_newer_features() -> None:
    devices = [{"name": "d", "bindsToNode": True, "attributes": {"c": {"int": 1}}}]
    request = exactly("r", capacity={"requests": {"memory": "1Gi"}})
    distinct = {"distinctAttribute": "a.b/c"}
    world = World(
        features=Features(implementation=Implementation.STABLE),
        slices=[slice_of("s", devices, allNodes=True)],
        claims=[claim_of([request])],
    )

    assert _one(world).node_selector is None

    world.claims = [claim_of([request], constraints=[distinct])]
    with pytest.raises(
        AllocationError, match=r"constraint #0: empty constraint \(unsupported constraint type"
    ):
        _one(world)
