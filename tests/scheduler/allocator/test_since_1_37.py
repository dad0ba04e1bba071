"""The allocator since Kubernetes 1.37: derived attributes, compatibility groups, operations to skip, and fixes."""

from typing import Any

import pytest
from dra_scheduler.allocator import AllocatedState, AllocationError, Allocator, DeviceID, Features, Trace
from dra_shared.api.codec import convert
from dra_shared.api.node import Node
from dra_shared.api.resource import AllocationResult, ResourceClaim, ResourceSlice
from dra_shared.api.resources import NODES
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, V1_37, Version

from tests.scheduler.allocator.worlds import DRIVERS, claim_of, device_class, exactly, node, slice_of
from tests.support.cases import each_case

FIRST, SECOND = DRIVERS


def features(*gates: str, version: Version = V1_37) -> Features:
    base = ("DRAPartitionableDevices", "DRAPrioritizedList", "DRAConsumableCapacity")
    return Features.from_gates((*base, *gates), version)


def allocate(
    slices: list[ResourceSlice],
    *claims: ResourceClaim,
    on: Features,
    state: AllocatedState | None = None,
    where: Node | None = None,
    trace: Trace | None = None,
) -> tuple[AllocationResult, ...] | None:
    allocator = Allocator(on, state or AllocatedState(), {"any": device_class()}, slices)
    return allocator.allocate(where or node(), claims, trace=trace)


def names(results: tuple[AllocationResult, ...] | None) -> list[list[str]] | None:
    if results is None:
        return None
    return [[one.device for one in result.devices.results] for result in results]


def hold_devices(*devices: str, share: str | None = None) -> AllocatedState:
    state = AllocatedState()
    ids = [DeviceID(FIRST, "p", device) for device in devices]
    state.hold_devices("default/other", [(device, share, {}) for device in ids])
    return state


def numa(name: str, **attributes: Any) -> JsonObject:
    return {"name": name, "attributes": attributes}


def two_drivers() -> list[ResourceSlice]:
    """Return slices of two drivers. The first calls the attribute numa, the second numaNode."""
    first = [numa("a1", numa={"string": "0"}), numa("a2", numa={"string": "1"})]
    second = [numa("b1", numaNode={"string": "1"})]
    return [slice_of("s1", first), slice_of("s2", second, driver=SECOND, pool={"name": "q"})]


def derived_attributes(expression: str, name: str = "derived/node") -> list[JsonObject]:
    return [{"name": name, "expression": expression}]


OF_FIRST = f"device.attributes['{FIRST}'].numa"
OF_SECOND = f"device.attributes['{SECOND}'].numaNode"
MATCH = [{"matchAttribute": "derived/node"}]


def of_driver(driver: str) -> list[JsonObject]:
    return [{"cel": {"expression": f"device.driver == '{driver}'"}}]


def both(
    first: str = OF_FIRST, second: str = OF_SECOND, constraints: list[JsonObject] | None = None
) -> ResourceClaim:
    requests = [
        exactly("a", selectors=of_driver(FIRST), derivedAttributes=derived_attributes(first)),
        exactly("b", selectors=of_driver(SECOND), derivedAttributes=derived_attributes(second)),
    ]
    return claim_of(requests, constraints=constraints or MATCH)


DERIVED = features("DRADerivedAttributes")


def test_derived_attributes_of_two_drivers_are_compared() -> None:
    """Follows upstream's testDerivedAttributes."""
    assert names(allocate(two_drivers(), both(), on=DERIVED)) == [["a2", "b1"]]


def test_derived_attributes_are_ignored_if_their_gate_is_disabled() -> None:
    text = (
        "claim default/c0, request a: cannot handle request with derived attributes, the feature is disabled"
    )
    with pytest.raises(AllocationError) as caught:
        allocate(two_drivers(), both(), on=features())
    assert str(caught.value) == text


def test_a_derived_attribute_takes_precedence_over_a_published_one() -> None:
    """Both devices have the same tag, but derive different ones."""
    devices = [numa("x", tag={"int": 1}, n={"int": 1}), numa("y", tag={"int": 1}, n={"int": 2})]
    own = f"{FIRST}/tag"
    constraints = [{"distinctAttribute": own}]
    plain = claim_of([exactly(count=2)], constraints=constraints)
    other = claim_of(
        [exactly(count=2, derivedAttributes=derived_attributes(f"device.attributes['{FIRST}'].n", own))],
        constraints=constraints,
    )
    assert names(allocate([slice_of("s", devices)], plain, on=DERIVED)) is None
    assert names(allocate([slice_of("s", devices)], other, on=DERIVED)) == [["x", "y"]]


def test_each_alternative_has_its_own_derived_attributes() -> None:
    request = {
        "name": "r",
        "firstAvailable": [
            {
                "name": name,
                "deviceClassName": "any",
                "allocationMode": "ExactCount",
                "count": 2,
                "derivedAttributes": derived_attributes(expression),
            }
            for name, expression in (("first", OF_FIRST), ("second", "'same'"))
        ],
    }
    results = allocate(two_drivers()[:1], claim_of([request], constraints=MATCH), on=DERIVED)
    assert results is not None
    assert [one.request for one in results[0].devices.results] == ["r/second", "r/second"]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("nothing", "compile derived attribute derived/node failed: compilation failed: ERROR: "),
        (
            f"device.attributes['{FIRST}'].none",
            f"evaluate derived attribute derived/node on device {FIRST}/p/a1 failed: no such key: none",
        ),
        (
            "dyn({1: 2})",
            f"evaluate derived attribute derived/node on device {FIRST}/p/a1 failed: unsupported CEL return type: map",
        ),
    ],
)
def test_an_expression_of_a_derived_attribute_that_fails_ends_the_allocation(
    expression: str, text: str
) -> None:
    with pytest.raises(AllocationError) as caught:
        allocate(two_drivers(), both(expression), on=DERIVED)
    assert str(caught.value).startswith(text)


def test_only_derived_attributes_that_a_constraint_compares_are_evaluated() -> None:
    broken = both("[1][1]", constraints=[{"matchAttribute": "derived/node", "requests": ["b"]}])
    assert names(allocate(two_drivers(), broken, on=DERIVED)) == [["a1", "b1"]]


@pytest.mark.parametrize(("lists", "found"), [(True, [["a1", "b1"]]), (False, None)])
def test_list_attributes_match_only_if_their_gate_is_enabled(
    lists: bool, found: list[list[str]] | None
) -> None:
    on = features("DRADerivedAttributes", *(["DRAListTypeAttributes"] if lists else []))
    assert names(allocate(two_drivers(), both("['x', 'y']", "['y']"), on=on)) == found


def partition(name: str, *groups: str, counter_set: str = "set", value: str = "1") -> JsonObject:
    consumed = {"counterSet": counter_set, "counters": {"slices": {"value": value}}}
    return {"name": name, "consumesCounters": [{**consumed, "compatibilityGroups": list(groups)}]}


def gpu(*partitions: JsonObject, total: str = "8", driver: str = FIRST) -> list[ResourceSlice]:
    sets = [{"name": name, "counters": {"slices": {"value": total}}} for name in ("other", "set")]
    spec: JsonObject = {"pool": {"resourceSliceCount": 2}, "driver": driver}
    counters = slice_of(f"counters-{driver}", [], sharedCounters=sets, **spec)
    return [counters, slice_of(f"devices-{driver}", list(partitions), **spec)]


GROUPS = features("DRADeviceCompatibilityGroups")


@each_case(
    ("used", "candidate", "fits"),
    [
        (None, (), True),
        (None, ("a",), True),
        ((), (), True),
        ((), ("a",), False),
        (("a",), (), False),
        (("a",), ("a", "b"), True),
        (("a",), ("b",), False),
        (("a", "b"), ("b", "c"), True),
        (("a", "b"), ("c", "d"), False),
    ],
)
def test_devices_are_compatible_if_they_share_a_group_or_have_none(
    used: tuple[str, ...] | None, candidate: tuple[str, ...], fits: bool
) -> None:
    """Follows upstream's TestCompatibilityGroupIntersectionAdmits."""
    slices = gpu(partition("used", *(used or ())), partition("new", *candidate))
    state = hold_devices("used") if used is not None else hold_devices("absent")
    claim = claim_of([exactly()])
    if used is None:
        slices = gpu(partition("new", *candidate))
    assert names(allocate(slices, claim, on=GROUPS, state=state)) == ([["new"]] if fits else None)


def test_each_allocated_device_narrows_the_common_compatibility_groups() -> None:
    """Follows upstream's TestCompatibilityGroupIntersectionRolling."""
    slices = gpu(
        partition("1", "foo", "foobar"),
        partition("2", "bar", "foobar"),
        partition("3", "baz"),
        partition("4", "foo"),
        partition("5", "qux", "foobar"),
    )
    assert names(allocate(slices, claim_of([exactly(count=3)]), on=GROUPS)) == [["1", "2", "5"]]
    # Across the claims of one attempt, too.
    claims = [claim_of([exactly()], f"c{index}") for index in range(3)]
    assert names(allocate(slices, *claims, on=GROUPS)) == [["1"], ["2"], ["5"]]
    assert names(allocate(slices, claim_of([exactly(count=4)]), on=GROUPS)) is None


def test_devices_on_different_counter_sets_are_not_compared() -> None:
    slices = gpu(partition("1", "a"), partition("2", "b", counter_set="other"))
    assert names(allocate(slices, claim_of([exactly(count=2)]), on=GROUPS)) == [["1", "2"]]


def test_compatibility_groups_of_a_device_that_was_tried_and_removed_do_not_count() -> None:
    """The first device is tried, but leaves nothing for the second request, which needs group b."""
    last = [{"cel": {"expression": f"device.attributes['{FIRST}'].?last.orValue(false)"}}]
    marked = partition("3", "b") | {"attributes": {"last": {"bool": True}}}
    slices = gpu(partition("1", "a"), partition("2", "b"), marked)
    claim = claim_of([exactly("x"), exactly("y", selectors=last)])
    assert names(allocate(slices, claim, on=GROUPS)) == [["2", "3"]]


def test_devices_with_compatibility_groups_are_skipped_if_the_gate_is_disabled() -> None:
    slices = gpu(partition("1", "a"), partition("2"))
    assert names(allocate(slices, claim_of([exactly()]), on=features())) is None
    with pytest.raises(AllocationError, match="is currently being updated"):
        allocate(slices, claim_of([exactly(allocationMode="All")]), on=features())
    assert names(allocate(slices, claim_of([exactly()]), on=features(version=V1_36))) == [["1"]]


def test_the_allocation_trace_names_the_incompatible_groups() -> None:
    trace = Trace()
    slices = gpu(partition("used", "a"), partition("new", "b"))
    allocate(slices, claim_of([exactly()]), on=GROUPS, state=hold_devices("used"), trace=trace)
    (reason,) = trace.requests[0].devices[DeviceID(FIRST, "p", "new")]
    assert str(reason) == "counter set set: compatibility groups are [b], those of the devices in use [a]"


SKIP = features("DRAOptionalNodeOperations")


def able(*declared: str) -> Node:
    return convert(NODES, {"metadata": {"name": "n0"}, "status": {"declaredFeatures": list(declared)}})


def test_node_operations_are_skipped_only_on_nodes_that_declare_the_feature() -> None:
    slices = [slice_of("s", [{"name": "d"}], skipNodeOperations=["*"])]
    claim = claim_of([exactly()])
    results = allocate(slices, claim, on=SKIP, where=able("DRAOptionalNodeOperations"))
    assert results is not None
    assert results[0].devices.results[0].skip_node_operations == ("*",)
    assert allocate(slices, claim, on=SKIP, where=able("Other")) is None
    others = features("DRADerivedAttributes")
    assert allocate(slices, claim, on=others, where=able("DRAOptionalNodeOperations")) is None


def test_older_allocators_ignore_skipped_operations() -> None:
    slices = [slice_of("s", [{"name": "d"}], skipNodeOperations=["*"])]

    results = allocate(slices, claim_of([exactly()]), on=features())

    assert results is not None
    assert results[0].devices.results[0].skip_node_operations == ()


def test_a_scheduler_of_1_36_ignores_skipped_operations_and_derived_attributes() -> None:
    """The API server may already be of version 1.37 during an upgrade."""
    slices = [slice_of("s", [{"name": "d"}], skipNodeOperations=["*"])]
    results = allocate(slices, claim_of([exactly()]), on=features(version=V1_36))
    assert results is not None
    assert results[0].devices.results[0].skip_node_operations == ()
    request = exactly("a", derivedAttributes=derived_attributes("'x'"))
    assert allocate(slices, claim_of([request], constraints=MATCH), on=features(version=V1_36)) is None


@pytest.mark.parametrize(
    ("on", "text"),
    [
        (SKIP, "the node does not declare DRAOptionalNodeOperations"),
        (features("DRADerivedAttributes"), "the DRAOptionalNodeOperations feature is disabled"),
    ],
)
def test_the_allocation_trace_says_why_node_operations_are_not_skipped(on: Features, text: str) -> None:
    trace = Trace()
    slices = [slice_of("s", [{"name": "d"}], skipNodeOperations=["*"])]
    allocate(slices, claim_of([exactly()]), on=on, trace=trace)
    (reason,) = trace.requests[0].devices[DeviceID(FIRST, "p", "d")]
    assert str(reason) == f"node operations are to be skipped, but {text}"


def test_counters_of_a_shared_device_are_charged_once() -> None:
    """A share without consumed capacity is identified by its share ID alone."""
    shared = partition("shared", value="5") | {"allowMultipleAllocations": True}
    slices = gpu(shared, partition("other", value="3"))
    claim = claim_of([exactly(count=2)])
    assert names(allocate(slices, claim, on=features(), state=hold_devices("shared", share="s"))) == [
        ["shared", "other"]
    ]
    assert names(
        allocate(slices, claim_of([exactly()]), on=features(), state=hold_devices("shared", share="s"))
    ) == [["shared"]]


def test_device_with_shares_is_allocated_whole_after_it_disallowed_sharing() -> None:
    slices = [slice_of("s", [{"name": "d"}])]

    results = allocate(slices, claim_of([exactly()]), on=features(), state=hold_devices("d", share="s"))

    assert names(results) == [["d"]]


def test_counters_of_a_rejected_device_are_released() -> None:
    """The first device would fit, but has a taint."""
    tainted = partition("1", value="8") | {"taints": [{"key": "t", "effect": "NoSchedule"}]}
    slices = gpu(tainted, partition("2", value="8"))
    found = {
        version: names(
            allocate(slices, claim_of([exactly()]), on=features("DRADeviceTaints", version=version))
        )
        for version in (V1_36, V1_37)
    }
    assert found == {V1_36: None, V1_37: [["2"]]}


def test_pools_of_different_drivers_with_one_name_have_separate_counters() -> None:
    full = gpu(partition("1", value="8"), total="0")
    other = gpu(partition("2", value="8"), driver=SECOND)
    found = {
        version: names(allocate([*full, *other], claim_of([exactly()]), on=features(version=version)))
        for version in (V1_36, V1_37)
    }
    assert found == {V1_36: None, V1_37: [["2"]]}


def test_the_common_values_of_a_constraint_widen_when_a_device_is_removed() -> None:
    """Kubernetes/kubernetes#140325: x matches w in one value and y in another."""
    devices = [
        numa("w", tag={"strings": ["a", "b"]}),
        numa("x", tag={"strings": ["a"]}),
        numa("y", tag={"strings": ["b"]}),
        numa("z", tag={"strings": ["b"]}),
    ]
    claim = claim_of([exactly(count=3)], constraints=[{"matchAttribute": f"{FIRST}/tag"}])
    lists = {v: features("DRAListTypeAttributes", version=v) for v in (V1_36, V1_37)}
    found = {
        version: names(allocate([slice_of("s", devices)], claim, on=on)) for version, on in lists.items()
    }
    assert found == {V1_36: None, V1_37: [["w", "y", "z"]]}


def test_each_device_of_a_request_is_distinct() -> None:
    """Kubernetes/kubernetes#140600: the third device was only compared with the second."""
    devices = [
        numa("1", n={"int": 1}),
        numa("2", n={"int": 2}),
        numa("3", n={"int": 1}),
        numa("4", n={"int": 3}),
    ]
    claim = claim_of([exactly(count=3)], constraints=[{"distinctAttribute": f"{FIRST}/n"}])
    found = {
        version: names(allocate([slice_of("s", devices)], claim, on=features(version=version)))
        for version in (V1_36, V1_37)
    }
    assert found == {V1_36: [["1", "2", "3"]], V1_37: [["1", "2", "4"]]}


def test_a_capacity_amount_that_cannot_be_computed_fails_the_allocation() -> None:
    policy = {"default": "1", "validRange": {"min": "1", "step": "1"}}
    device = {
        "name": "d",
        "allowMultipleAllocations": True,
        "capacity": {"m": {"value": "10", "requestPolicy": policy}},
    }
    claim = claim_of([exactly(capacity={"requests": {"m": "1e30"}})])
    text = (
        f'claim default/c0, request r0: checking capacity for device {FIRST}/p/d: capacity "m": capacity request '
        "cannot be represented in the device's range arithmetic: request 1e30 exceeds MaxInt64"
    )
    with pytest.raises(AllocationError) as caught:
        allocate([slice_of("s", [device])], claim, on=features())
    assert str(caught.value) == text


def test_the_error_of_a_selector_names_the_device() -> None:
    claim = claim_of(
        [exactly(selectors=[{"cel": {"expression": f"device.attributes['{FIRST}'].none == 1"}}])]
    )
    text = (
        f"claim default/c0: selector #0 on device {FIRST}/p/d: CEL runtime error: no such key: none. consider using "
        "CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields"
    )
    with pytest.raises(AllocationError) as caught:
        allocate([slice_of("s", [{"name": "d"}])], claim, on=features())
    assert str(caught.value) == text


def test_first_device_matches_with_an_attribute_of_unknown_type_if_lists_are_disabled() -> None:
    devices = [{"name": name, "attributes": {"kind": {"strings": ["x"]}}} for name in ("d0", "d1")]
    slices = [slice_of("s", devices)]
    constraints: list[JsonObject] = [{"matchAttribute": f"{FIRST}/kind"}]

    assert names(allocate(slices, claim_of([exactly()], constraints=constraints), on=features())) == [["d0"]]
    assert allocate(slices, claim_of([exactly(count=2)], constraints=constraints), on=features()) is None
