"""Constraints: the devices that they accept, and their state after a device was removed again, as upstream."""

from typing import Any

import pytest
from dra_scheduler.allocator import Features
from dra_scheduler.allocator.constraints import Constraint, lookup_attribute, new_constraint
from dra_scheduler.allocator.pools import PoolDevice, SliceEntry
from dra_shared.api.resource import DeviceConstraint
from dra_shared.version import DEFAULT, V1_36, Version

from tests.scheduler.allocator.worlds import slice_of
from tests.support.cases import each_case

NAME = "a.example.com/tag"


def _device(**value: Any) -> PoolDevice:
    attributes = {"tag": value} if value else {}
    return SliceEntry(slice_of("s", [{"name": "d", "attributes": attributes}]), 0, Features()).devices[0]


def _constraint(
    kind: str, *, lists: bool = False, requests: tuple[str, ...] = (), kubernetes: Version = DEFAULT
) -> Constraint:
    spec = (
        DeviceConstraint(match_attribute=NAME, requests=requests)
        if kind == "match"
        else DeviceConstraint(distinct_attribute=NAME, requests=requests)
    )
    found = new_constraint(spec, Features(list_type_attributes=lists, kubernetes=kubernetes))
    assert found is not None
    return found


def _add(constraint: Constraint, request: str, subrequest: str, device: PoolDevice) -> bool:
    return constraint.add(request, subrequest, device, lookup_attribute(device, constraint.attribute_name))


@each_case(
    ("kind", "first", "second", "accepted"),
    [
        ("match", {"string": "x"}, {"string": "x"}, True),
        ("match", {"string": "x"}, {"string": "y"}, False),
        ("match", {"string": "1"}, {"int": 1}, False),
        ("match", {"bool": True}, {"int": 1}, False),
        ("match", {"version": "1.0.0"}, {"version": "1.0.0"}, True),
        ("match", {"string": "x"}, {}, False),
        ("distinct", {"string": "x"}, {"string": "x"}, False),
        ("distinct", {"string": "x"}, {"string": "y"}, True),
        ("distinct", {"string": "1"}, {"int": 1}, True),
        ("distinct", {"string": "x"}, {}, False),
    ],
)
def test_devices_match_or_differ_by_single_values(
    kind: str, first: dict[str, Any], second: dict[str, Any], accepted: bool
) -> None:
    for lists in (False, True):
        constraint = _constraint(kind, lists=lists)

        assert _add(constraint, "r0", "", _device(**first))
        assert _add(constraint, "r1", "", _device(**second)) is accepted


@pytest.mark.parametrize(
    ("kind", "sets", "accepted"),
    [
        ("match", ["xy", "yz", "y"], True),
        ("match", ["xy", "yz", "zx"], False),
        ("distinct", ["xy", "z"], True),
        ("distinct", ["xy", "yz"], False),
    ],
)
def test_devices_match_or_differ_by_lists(kind: str, sets: list[str], accepted: bool) -> None:
    constraint = _constraint(kind, lists=True)

    added = [_add(constraint, f"r{i}", "", _device(strings=list(values))) for i, values in enumerate(sets)]

    assert all(added) is accepted


def test_a_single_value_matches_a_list_that_contains_it() -> None:
    constraint = _constraint("match", lists=True)

    assert _add(constraint, "r0", "", _device(string="x"))
    assert _add(constraint, "r1", "", _device(strings=["x", "y"]))
    assert not _add(constraint, "r2", "", _device(strings=["y"]))


def test_the_common_values_of_a_constraint_stay_narrowed_after_removal_until_1_36() -> None:
    constraint = _constraint("match", lists=True, kubernetes=V1_36)
    _add(constraint, "r0", "", _device(strings=["x", "y"]))
    _add(constraint, "r1", "", _device(strings=["x"]))

    assert not constraint.remove("r1", "", _device(strings=["x"]))
    assert not _add(constraint, "r1", "", _device(strings=["y"]))

    constraint.remove("r0", "", _device(strings=["x", "y"]))
    assert _add(constraint, "r0", "", _device(strings=["y"]))


def test_distinct_constraint_keeps_only_the_last_device_of_a_request_until_1_36() -> None:
    constraint = _constraint("distinct", kubernetes=V1_36)
    _add(constraint, "r0", "", _device(string="x"))
    _add(constraint, "r0", "", _device(string="y"))

    assert _add(constraint, "r0", "", _device(string="x"))
    assert not constraint.remove("r0", "", _device(string="x"))
    assert constraint.compared_values() == ()
    assert _add(constraint, "r1", "", _device(string="y"))
    assert constraint.remove("r1", "", _device(string="y"))


def test_a_constraint_applies_only_to_the_requests_that_it_names() -> None:
    constraint = _constraint("match", requests=("r0", "r1/small"))

    assert _add(constraint, "r0", "", _device(string="x"))
    assert _add(constraint, "r2", "", _device(string="y"))
    assert _add(constraint, "r1", "large", _device(string="y"))
    assert not _add(constraint, "r1", "small", _device(string="y"))
    assert _add(constraint, "r0", "any", _device(string="x"))


def test_attributes_of_other_domains_need_their_full_name() -> None:
    own = _constraint("match")
    spec = DeviceConstraint(match_attribute="other.example.com/tag")
    other = new_constraint(spec, Features())
    assert other is not None

    assert _add(own, "r0", "", _device(string="x"))
    assert not _add(other, "r0", "", _device(string="x"))


def test_a_constraint_of_an_unknown_kind_is_ignored() -> None:
    assert new_constraint(DeviceConstraint(), Features()) is None
