"""Test that the work for a list grows linearly with its length, in every field of every kind."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import orjson
import pytest
from dra_apiserver.errors import FieldError, invalid, invalid_object
from dra_apiserver.kinds import catalog
from dra_apiserver.patch.managers import Entry, ManagerKey, Managers

from tests.support.growth import Growth, ListField, lists, steps
from tests.support.sampling import sample
from tests.support.work import Step, counted_strings, is_quadratic

_SHARDS = 8
# A limit on a list's length bends the curve once. A walk over all pairs bends it at every length.
_LENGTHS = (3, 24, 64)
# Each step has its own items, so that no step finds what another left in a cache.
_APART = 1000
_FIELDS = Growth(catalog.registry("api/all=true")).fields
Walk = Callable[[list[str]], object]


def _find_wrong(field: ListField) -> list[str]:
    wrong = []
    for like, items in lists(field, 1):
        for number, name in enumerate(steps(field, items), 1):

            def create_step(
                length: int, like: str = like, name: str = name, first: int = _APART * number
            ) -> Step:
                return steps(field, dict(lists(field, length, first))[like])[name]

            create_step(1, first=0)()
            if all(is_quadratic(create_step, length) for length in _LENGTHS):
                wrong.append(f"{field}, {like} items: {name}")
    return wrong


def _create_walk(walk: Walk) -> Callable[[int], Step]:
    def create_step(length: int) -> Step:
        names = orjson.dumps([f"n{number}" for number in range(length)])
        return lambda: walk(orjson.loads(names))

    return create_step


def _pairs_in_a_loop(names: list[str]) -> object:
    found = 0
    for one in names:
        for other in names:
            found += len(one) == len(other)
    return found


def _pairs_in_an_expression(names: list[str]) -> object:
    return [len(one) == len(other) for one in names for other in names]


def _a_list_as_a_set(names: list[str]) -> object:
    known = list(names)
    return [name for name in names if f"{name}" in known]


def _positions(names: list[str]) -> object:
    return [names.index(name) for name in names]


def _each_with_its_neighbour(names: list[str]) -> object:
    return [one == other for one, other in pairwise(names)]


def _a_set(names: list[str]) -> object:
    known = set(names)
    return [name for name in names if f"{name}" in known]


def _much_before_it(names: list[str]) -> object:
    return [len(names) for _ in range(1000)], [name.upper() for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("shard", sample(range(_SHARDS), 1))
def test_no_work_grows_with_the_square_of_a_list(shard: int) -> None:
    with counted_strings():
        assert [wrong for field in _FIELDS[shard::_SHARDS] for wrong in _find_wrong(field)] == []


@pytest.mark.parametrize("walk", [_pairs_in_a_loop, _pairs_in_an_expression, _a_list_as_a_set, _positions])
def test_quadratic_work_is_detected(walk: Walk) -> None:
    with counted_strings():
        assert all(is_quadratic(_create_walk(walk), length) for length in _LENGTHS)


@pytest.mark.parametrize("walk", [sorted, _each_with_its_neighbour, _a_set, _much_before_it])
def test_linear_work_is_not_reported_as_quadratic(walk: Walk) -> None:
    with counted_strings():
        assert not any(is_quadratic(_create_walk(walk), length) for length in _LENGTHS)


def test_every_kind_of_list_is_measured() -> None:
    names = {str(field) for field in _FIELDS}
    assert len(names) > 300
    assert {
        "Pod.metadata.ownerReferences",
        "Pod.metadata.managedFields",
        "Pod.metadata.labels",
        "Pod.spec.topologySpreadConstraints",
        "Pod.spec.containers.0.env",
        "ResourceClaim.status.devices.0.conditions",
    } <= names


def test_the_work_to_merge_many_field_managers_grows_linearly() -> None:
    def create_step(count: int) -> Step:
        def fold() -> None:
            entries = {
                ManagerKey(f"m{number}", "Update", "v1"): Entry("v1", {"f:data": {f"f:k{number}": {}}})
                for number in range(count)
            }
            managers = Managers(entries)
            managers.cap()
            assert len(managers.entries) == 10
            oldest = managers.entries[ManagerKey("ancient-changes", "Update", "v1")]
            assert len(oldest.fields["f:data"]) == count - 9

        return fold

    assert not is_quadratic(create_step, 20)


def test_errors_that_each_show_a_long_list_are_summarized_beyond_a_limit() -> None:
    def create_errors(count: int) -> list[FieldError]:
        shown = [f"name-{number}" for number in range(count)]
        return [invalid("spec.names", shown, f"wrong {number}") for number in range(count)]

    few = invalid_object("", "Pod", "p", create_errors(2))
    assert few.message.endswith("wrong 1]")
    assert len(few.status["details"]["causes"]) == 2
    many = invalid_object("", "Pod", "p", create_errors(4000))
    causes = many.status["details"]["causes"]
    assert many.message.endswith(f"and {4000 - len(causes)} more errors]")
    assert len(many.encode()) < 10 << 20
