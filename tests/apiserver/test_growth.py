"""Long lists cost what they are long, and no more: in no field of no kind does the work grow with their square."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from dra_apiserver.errors import FieldError, invalid, invalid_object
from dra_apiserver.kinds import catalog
from dra_apiserver.patch.managers import Entry, ManagerKey, Managers

from tests.support.growth import Growth, ListField, Step, lists, seconds, steps

_SHARDS = 8
_LENGTH = 100
_TIMES = 4
# What costs four times as much for four times the items is linear, what costs sixteen times as much quadratic. Short
# lists only tell what has to be looked at more closely: the longer they are, the less a linear part hides.
_SUSPICIOUS, _QUADRATIC = 4.8, 7.5
_CLOSER = (4, 12)
# In seconds: what takes less is not worth the look.
_LEAST = 0.001
_FIELDS = Growth(catalog.registry("api/all=true")).fields


def _grows(short: Step, long: Step, times: int, limit: float) -> bool:
    spent = seconds(long, times)
    return spent > _LEAST and spent > limit * seconds(short, times)


def _is_quadratic(made: Callable[[int], Step]) -> bool:
    """Whether the step made for a length takes far more for several times the length, however long that is."""
    return all(
        _grows(made(length), made(_TIMES * length), 2, _QUADRATIC)
        for length in (more * _LENGTH for more in _CLOSER)
    )


def _found(field: ListField) -> list[str]:
    wrong = []
    many = dict(lists(field, _TIMES * _LENGTH))
    for like, items in lists(field, _LENGTH):
        longer = dict(steps(field, many[like]))
        for name, step in steps(field, items):
            seconds(step)
            if not _grows(step, longer[name], 1, _SUSPICIOUS):
                continue

            def made(length: int, like: str = like, name: str = name) -> Step:
                return dict(steps(field, dict(lists(field, length))[like]))[name]

            if _is_quadratic(made):
                wrong.append(f"{field}, {like} items: {name}")
    return wrong


@pytest.mark.parametrize("shard", range(_SHARDS))
def test_no_work_grows_with_the_square_of_a_list(shard: int) -> None:
    assert [wrong for field in _FIELDS[shard::_SHARDS] for wrong in _found(field)] == []


def test_every_kind_of_list_is_looked_at() -> None:
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


def test_many_managers_are_folded_in_one_walk() -> None:
    def made(count: int) -> Step:
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

    assert not _is_quadratic(made)


def test_errors_that_show_a_long_list_each_are_counted_once_they_are_too_many() -> None:
    def made(count: int) -> list[FieldError]:
        shown = [f"name-{number}" for number in range(count)]
        return [invalid("spec.names", shown, f"wrong {number}") for number in range(count)]

    few = invalid_object("", "Pod", "p", made(2))
    assert few.message.endswith("wrong 1]")
    assert len(few.status["details"]["causes"]) == 2
    many = invalid_object("", "Pod", "p", made(4000))
    causes = many.status["details"]["causes"]
    assert many.message.endswith(f"and {4000 - len(causes)} more errors]")
    assert len(many.encode()) < 10 << 20
