"""Objects with long lists, generated from the schemas, and the number of steps that a request takes with them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.errors import StatusError
from dra_apiserver.http import Request
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.patch import PatchError, server_side_apply, strategic_merge_patch, track_update
from dra_apiserver.registry import Registry
from dra_apiserver.rest.meta import drop_duplicate_owners
from dra_apiserver.schema import DecodeError
from dra_apiserver.schema.types import Field, ListNode, MapNode, Node, Scalar, Struct, object_type
from dra_apiserver.tables import table
from dra_recordings.validate import answer
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject

from tests.support.work import Step

Path = tuple[str | int, ...]

NOW = "2020-01-01T00:00:00Z"
_GIVEN: dict[Scalar, Callable[[int], Any]] = {
    Scalar.STRING: lambda number: f"n{number}",
    Scalar.BOOL: lambda number: True,
    Scalar.INT32: lambda number: number % 60000 + 1,
    Scalar.INT64: lambda number: number + 1,
    Scalar.FLOAT: lambda number: number + 1.5,
    Scalar.BYTES: lambda number: "YQ==",
    Scalar.TIME: lambda number: NOW,
    Scalar.MICRO_TIME: lambda number: "2020-01-01T00:00:00.000000Z",
    Scalar.QUANTITY: lambda number: str(number + 1),
    Scalar.INT_OR_STRING: lambda number: number % 60000 + 1,
    Scalar.ANY: lambda number: {"number": number},
}
# The outcomes of a step. Not every step can do something with every object.
_REFUSALS = (StatusError, DecodeError, PatchError, LookupError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True)
class ListField:
    """A list or map in a kind's objects. In `path`, 0 is an item of a list, and "key" one of a map."""

    kind: Kind
    path: Path
    node: ListNode | MapNode

    def __str__(self) -> str:
        return f"{self.kind.kind}.{'.'.join(map(str, self.path))}"


class Growth:
    """All fields that are lists or maps. A field of a struct is included once, whatever kinds have the struct."""

    def __init__(self, registry: Registry) -> None:
        self._seen: set[tuple[str, str]] = set()
        self.fields = [
            found
            for kind in sorted(registry, key=_simple_first)
            for found in self._below(kind, object_type(kind, kind.storage_version), (), ())
        ]

    def _below(self, kind: Kind, node: Node, path: Path, within: tuple[str, ...]) -> Iterator[ListField]:
        match node:
            case ListNode():
                yield from self._below(kind, node.item, (*path, 0), within)
            case MapNode():
                yield from self._below(kind, node.value, (*path, "key"), within)
            case Struct() if node.name not in within:
                for member in node.fields.values():
                    place = (*path, member.name)
                    if (
                        isinstance(member.node, ListNode | MapNode)
                        and (node.name, member.name) not in self._seen
                    ):
                        self._seen.add((node.name, member.name))
                        yield ListField(kind, place, member.node)
                    yield from self._below(kind, member.node, place, (*within, node.name))


def _simple_first(kind: Kind) -> tuple[bool, str, str]:
    return kind.kind != "Pod", kind.group, kind.kind


def item(node: Node, number: int, all_members: bool, keys: tuple[str, ...] = ()) -> Any:
    """Return an item of a list that differs from other numbers, with all scalar members or only its keys."""
    if isinstance(node, Scalar):
        return _GIVEN[node](number)
    if isinstance(node, ListNode):
        return [item(node.item, number, all_members)]
    if isinstance(node, MapNode):
        return {f"k{number}": item(node.value, number, all_members)}
    return {
        name: _GIVEN[member.node](number)
        for name, member in node.fields.items()
        if isinstance(member.node, Scalar) and (all_members or name in keys or _identifies(name, member))
    }


def _identifies(name: str, member: Field) -> bool:
    return member.node is Scalar.STRING and name in ("name", "key", "type", "request")


def object_with_items(field: ListField, items: Any) -> JsonObject:
    """Return an object that has these items in its list."""
    kind = field.kind
    made: JsonObject = {"apiVersion": kind.storage_api_version, "kind": kind.kind, "metadata": {"name": "x"}}
    if kind.namespaced:
        made["metadata"]["namespace"] = "default"
    node: Node = object_type(kind, kind.storage_version)
    here: Any = made
    for at, step in enumerate(field.path):
        node = _child(node, step)
        last = at == len(field.path) - 1
        value: Any = items if last else _container(node)
        if step == 0:
            here[0] = value if not isinstance(here[0], dict) or last else here[0] | value
            here = here[0]
        else:
            found = here.setdefault(step, value)
            if last:
                here[step] = items
            here = found
    return made


def _child(node: Node, step: str | int) -> Node:
    if isinstance(node, ListNode):
        return node.item
    if isinstance(node, MapNode):
        return node.value
    assert isinstance(node, Struct)
    assert isinstance(step, str)
    return node.fields[step].node


def _container(node: Node) -> Any:
    if isinstance(node, ListNode):
        return [item(node.item, 0, False, (*node.keys, node.merge_key))]
    return item(node, 0, False) if isinstance(node, Struct) else {}


def lists(field: ListField, length: int, first: int = 0) -> Iterator[tuple[str, Any]]:
    """Return lists and maps of this length by the kind of their items, numbered from `first`."""
    numbers = range(first, first + length)
    if isinstance(field.node, MapNode):
        yield (
            "full",
            {f"example.com/k{number}": item(field.node.value, number, True) for number in numbers},
        )
        return
    node, keys = field.node.item, (*field.node.keys, field.node.merge_key)
    yield "full", [item(node, number, True, keys) for number in numbers]
    yield "same", [item(node, first, True, keys)] * length


def steps(field: ListField, items: Any) -> dict[str, Step]:
    """Return the operations of requests on such an object, by name."""
    kind, version = field.kind, field.kind.storage_version
    text = orjson.dumps(object_with_items(field, items))
    reverse = dict(reversed(items.items())) if isinstance(items, dict) else items[::-1]
    turned = orjson.dumps(object_with_items(field, reverse))
    status = field.path[0] == "status"

    def read(body: bytes = text) -> Any:
        return orjson.loads(body)

    def track(body: bytes = text) -> JsonObject:
        made: JsonObject = read(body)
        track_update(kind, version, None, made, manager="one", now=NOW)
        return made

    def update() -> None:
        old = track()
        track_update(kind, version, old, read(turned), manager="two", now=NOW)

    def apply(force: bool = True) -> None:
        live = server_side_apply(kind, version, None, read(), manager="one", now=NOW)
        changed = orjson.loads(text.replace(b'"n', b'"m'))
        server_side_apply(kind, version, live, changed, manager="one", now=NOW)
        server_side_apply(kind, version, track(), read(turned), manager="two", now=NOW, force=force)

    def patch() -> None:
        strategic_merge_patch(object_type(kind, version), read(), read(turned))

    def deduplicate() -> None:
        request = Request({"method": "", "path": ""}, _nothing, _nothing, "")
        drop_duplicate_owners(read()["metadata"], request)

    def show() -> None:
        table(kind, version, [read()], metadata={}, now=datetime(2020, 1, 1, tzinfo=UTC))

    def warn() -> None:
        ctx = Context(kind, version, "default", NOW, FeatureGates(), lookup=lambda *_: None)
        GenericStrategy().warnings_on_create(read(), ctx)

    def create() -> None:
        answer({"object": read()})

    def change() -> None:
        operation = "statusUpdate" if status else "update"
        answer({"object": read(turned), "oldObject": read(), "operation": operation})

    named: dict[str, Step] = {
        "create": create,
        "update": change,
        "track a create": track,
        "track an update": update,
        "apply": apply,
        "patch": patch,
        "owners": deduplicate,
        "table": show,
        "warn": warn,
    }
    return {name: _whatever_it_answers(step) for name, step in named.items()}


def _whatever_it_answers(step: Step) -> Step:
    def run() -> None:
        with contextlib.suppress(*_REFUSALS):
            step()

    return run


async def _nothing(*_: Any) -> Any:
    raise AssertionError
