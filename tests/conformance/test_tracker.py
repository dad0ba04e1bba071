"""DeviceTaintRules applied to ResourceSlices (tracker): state and events after events in any order."""

import copy
import functools
import itertools
from typing import Any

from dra_shared.api.codec import to_builtins
from dra_shared.api.resource import ResourceSlice
from dra_shared.api.resources import DEVICE_TAINT_RULES, RESOURCE_SLICES
from dra_shared.cel import compile_expression
from dra_shared.jsontypes import JsonObject
from dra_shared.slicetracker import SliceTracker
from dra_shared.taintcriteria import TaintCriteria
from dra_shared.version import V1_34

from tests.conformance.plain import decode
from tests.support.cases import each_case
from tests.support.reference import load_vectors

_CASES = load_vectors("tracker.json.gz")
_MOST_ORDERS = 120
_compile = functools.partial(compile_expression, features=(), kubernetes=V1_34)


def _apply(tracker: SliceTracker, entry: JsonObject) -> None:
    obj = entry.get("new") or entry["old"]
    gone = entry["event"] == "delete"
    match obj["kind"]:
        case "ResourceSlice":
            if gone:
                tracker.delete_slice(obj["metadata"]["name"])
            else:
                tracker.set_slice(decode(RESOURCE_SLICES, obj))
        case "DeviceTaintRule":
            if gone:
                tracker.delete_rule(obj["metadata"]["name"])
            else:
                tracker.set_rule(decode(DEVICE_TAINT_RULES, obj))
        case other:
            # These rules do not select by class.
            assert other == "DeviceClass"
            tracker.update_class()


def _plain(piece: ResourceSlice | None) -> Any:
    if piece is None:
        return None
    value = copy.deepcopy(to_builtins(piece))
    return _bare(value)


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        found = {k: _bare(v) for k, v in value.items() if k not in ("kind", "apiVersion")}
        return {k: v for k, v in found.items() if v not in (None, "", 0, {}, [])}
    if isinstance(value, list | tuple):
        return [_bare(item) for item in value]
    return value


def _orders(events: list[Any]) -> list[list[JsonObject]]:
    """Yield every order of the events. Events of an inner list keep their order."""
    groups = [entry if isinstance(entry, list) else [entry] for entry in events]
    orders = itertools.islice(itertools.permutations(groups), _MOST_ORDERS)
    return [list(itertools.chain.from_iterable(order)) for order in orders]


@each_case("criteria", [None, TaintCriteria(lambda name: None, _compile)], ids=["1.36", "1.34"])
@each_case("case", _CASES, ids=[case["name"] for case in _CASES])
def test_patched_slices_agree_with_upstream_after_events_in_any_order(
    case: JsonObject, criteria: TaintCriteria | None
) -> None:
    expected = [_bare(piece) for piece in case["actualPatchedSlices"] or ()]
    for order in _orders(case["events"]):
        tracker = SliceTracker(criteria=criteria)
        for entry in order:
            _apply(tracker, entry)
        found = sorted(tracker.list(), key=lambda piece: piece.metadata.name)
        assert [_plain(piece) for piece in found] == expected
        assert all(tracker.get(piece.metadata.name) is piece for piece in found)


@each_case("case", _CASES, ids=[case["name"] for case in _CASES])
def test_events_of_the_tracker_agree_with_upstream(case: JsonObject) -> None:
    tracker = SliceTracker()
    notified: list[tuple[Any, Any]] = []
    tracker.add_listener(lambda old, new: notified.append((_plain(old), _plain(new))))
    for entry in case["events"]:
        for single in entry if isinstance(entry, list) else [entry]:
            _apply(tracker, single)
    expected = [
        (
            _bare(event.get("old")) if event.get("old") else None,
            _bare(event.get("new")) if event.get("new") else None,
        )
        for event in case["actualHandlerEvents"] or ()
    ]
    assert notified == expected


def test_slices_are_unchanged_if_taint_rules_are_disabled() -> None:
    for case in _CASES:
        tracker = SliceTracker(rules_enabled=False)
        for piece in case["final"]["resourceSlices"] or ():
            tracker.set_slice(decode(RESOURCE_SLICES, piece))
        for rule in case["final"]["deviceTaintRules"] or ():
            tracker.set_rule(decode(DEVICE_TAINT_RULES, rule))
        assert sorted(map(str, map(_plain, tracker.list()))) == sorted(
            str(_bare(to_builtins(decode(RESOURCE_SLICES, piece))))
            for piece in case["final"]["resourceSlices"] or ()
        )
