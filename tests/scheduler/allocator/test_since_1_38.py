"""The allocator since Kubernetes 1.38: names of capacities, shares that remain, and values that are not valid."""

import pytest
from dra_scheduler.allocator import AllocatedState, AllocationError, Features
from dra_scheduler.allocator.features import Implementation
from dra_scheduler.allocator.state import DeviceID
from dra_shared.api.resource import AllocationResult, ResourceClaim
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37, V1_38, Version

from tests.scheduler.allocator.test_since_1_37 import allocate, features, hold_devices, names
from tests.scheduler.allocator.worlds import DRIVERS, claim_of, exactly, selector, slice_of

DRIVER = DRIVERS[0]
_BOTH = pytest.mark.parametrize("version", [V1_37, V1_38], ids=str)


def sharable_device(name: str, *capacities: str, value: str = "10") -> JsonObject:
    capacity = {one: {"value": value} for one in capacities}
    return {"name": name, "allowMultipleAllocations": True, "capacity": capacity}


def new_claim(**requests: str) -> ResourceClaim:
    return claim_of([exactly(capacity={"requests": requests})])


def read_consumption(results: tuple[AllocationResult, ...] | None) -> dict[str, str]:
    assert results is not None
    (result,) = results[0].devices.results
    return dict(result.consumed_capacity)


@_BOTH
@pytest.mark.parametrize(
    ("published", "asked"), [("memory", f"{DRIVER}/memory"), (f"{DRIVER}/memory", "memory")]
)
def test_capacity_is_found_by_its_name_with_or_without_domain(
    version: Version, published: str, asked: str
) -> None:
    slices = [slice_of("s", [sharable_device("a", published)])]
    found = allocate(slices, new_claim(**{asked: "4"}), on=features(version=version))
    if version < V1_38:
        assert found is None
    else:
        # The status has the name that the driver published.
        assert read_consumption(found) == {published: "4"}


def test_a_capacity_name_with_another_domain_does_not_match_the_drivers_capacity() -> None:
    slices = [slice_of("s", [sharable_device("a", "other.example.com/memory")])]
    assert allocate(slices, new_claim(memory="4"), on=features(version=V1_38)) is None


def test_requesting_a_capacity_with_and_without_its_domain_is_an_error() -> None:
    slices = [slice_of("s", [sharable_device("a", "memory")])]
    claim = new_claim(**{"memory": "4", f"{DRIVER}/memory": "4"})
    with pytest.raises(AllocationError) as raised:
        allocate(slices, claim, on=features(version=V1_38))
    wanted = f'capacity "memory" requested both as "{DRIVER}/memory" and as "memory"'
    assert str(raised.value).endswith(f"checking capacity for device {DRIVER}/p/a: {wanted}")


def test_a_negative_capacity_request_is_an_error() -> None:
    slices = [slice_of("s", [sharable_device("a", "memory")])]
    with pytest.raises(
        AllocationError, match=r'capacity ".*/memory": capacity value is negative: request -1$'
    ):
        allocate(slices, new_claim(memory="-1"), on=features(version=V1_38))


def test_consumed_capacity_stored_with_and_without_its_domain_adds_up() -> None:
    state = AllocatedState()
    device = DeviceID(DRIVER, "p", "a")
    state.hold_devices("default/x", [(device, "1", {"memory": 4 * 10**9})])
    state.hold_devices("default/y", [(device, "2", {f"{DRIVER}/memory": 4 * 10**9})])
    slices = [slice_of("s", [sharable_device("a", "memory")])]
    assert allocate(slices, new_claim(memory="3"), on=features(version=V1_38), state=state) is None
    assert allocate(slices, new_claim(memory="2"), on=features(version=V1_38), state=state) is not None


@_BOTH
def test_a_device_with_shares_is_not_allocated_whole_after_it_disallowed_sharing(version: Version) -> None:
    slices = [slice_of("s", [{"name": "a"}, {"name": "b"}])]
    found = allocate(
        slices, claim_of([exactly()]), on=features(version=version), state=hold_devices("a", share="1")
    )
    assert names(found) == [["a" if version < V1_38 else "b"]]


@_BOTH
def test_versions_that_differ_only_in_build_metadata_are_equal(version: Version) -> None:
    devices = [{"name": name, "attributes": {"fw": {"version": f"1.0.0+{name}"}}} for name in "ab"]
    claim = claim_of([exactly(count=2)], constraints=[{"matchAttribute": f"{DRIVER}/fw"}])
    found = allocate([slice_of("s", devices)], claim, on=features(version=version))
    assert names(found) == (None if version < V1_38 else [["a", "b"]])


@pytest.mark.parametrize(
    ("gates", "where"), [((), "claim default/c0, request r0: "), (("DRADerivedAttributes",), "")]
)
def test_an_attribute_value_that_a_constraint_cannot_compare_ends_the_allocation(
    gates: tuple[str, ...], where: str
) -> None:
    slices = [slice_of("s", [{"name": "a", "attributes": {"fw": {"version": "1.0"}}}])]
    claim = claim_of([exactly()], constraints=[{"matchAttribute": f"{DRIVER}/fw"}])
    with pytest.raises(AllocationError) as raised:
        allocate(slices, claim, on=features(*gates, version=V1_38))
    assert str(raised.value) == f"{where}device {DRIVER}/p/a: unsupported attribute value for {DRIVER}/fw"


@_BOTH
def test_invalid_attribute_only_matters_to_selectors_that_read_it(version: Version) -> None:
    device = {"name": "a", "attributes": {"fw": {"version": "1.0"}, "model": {"string": "A"}}}
    slices = [slice_of("s", [device])]

    def select(text: str) -> list[list[str]] | None:
        claim = claim_of([exactly(selectors=selector(text))])
        return names(allocate(slices, claim, on=features(version=version)))

    reading = f"device.attributes['{DRIVER}'].?fw.hasValue()"
    other = f"device.attributes['{DRIVER}'].model == 'A'"
    if version >= V1_38:
        assert select(other) == [["a"]]
        wanted = "attribute fw: value is invalid or its type is not supported by this version"
        with pytest.raises(AllocationError, match=wanted):
            select(reading)
    else:
        with pytest.raises(AllocationError, match="attribute fw: parse semantic version"):
            select(other)


def test_the_stable_allocator_has_the_features_that_the_incubating_one_had_in_1_37() -> None:
    shares = ("DRAConsumableCapacity", "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus")
    assert Features.from_gates(shares, V1_37).implementation is Implementation.INCUBATING
    stable = Features.from_gates(shares, V1_38)
    assert stable.implementation is Implementation.STABLE
    assert stable.knows_shares
    assert stable.pools_are_sorted
    newest = Features.from_gates((*shares, "DRADerivedAttributes"), V1_38)
    assert newest.implementation is Implementation.INCUBATING
    assert newest.operations_are_known
    assert not stable.operations_are_known


def test_request_for_all_devices_of_an_incomplete_pool_fails_on_the_node_only() -> None:
    slices = [slice_of("s", [{"name": "a"}], pool={"resourceSliceCount": 2})]
    claim = claim_of([exactly(allocationMode="All")])
    for version in (V1_37, V1_38):
        with pytest.raises(AllocationError, match="is currently being updated") as raised:
            allocate(slices, claim, on=features(version=version))
        assert raised.value.only_this_node is (version >= V1_38)


def test_a_derived_attribute_is_evaluated_with_the_cel_of_the_version() -> None:
    device = {"name": "a", "attributes": {"fw": {"version": "1.0"}}}
    derived = [{"name": "derived/a", "expression": "device.driver"}]
    claim = claim_of([exactly(derivedAttributes=derived)], constraints=[{"matchAttribute": "derived/a"}])
    found = allocate([slice_of("s", [device])], claim, on=features("DRADerivedAttributes", version=V1_38))
    assert names(found) == [["a"]]
