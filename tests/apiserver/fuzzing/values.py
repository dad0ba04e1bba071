"""Random values of a type: mostly valid, sometimes not."""

import copy
import json
import random
import re
from typing import Any

from dra_apiserver.schema.types import ListNode, MapNode, Node, Scalar, Struct

from tests.support import apiobjects as objects

NAMES = ["a", "b", "base", "base"]
_TEXTS = [
    *NAMES,
    "default",
    "",
    "x" * 300,
    "a.example.com",
    "example.com/a",
    "1",
    "-1",
    "5%",
    "A_B",
    "\x00",
    "é",
    "../a",
    "Always",
    "None",
    "*",
    "device.driver == 'a'",
    "object.spec.a",
    "[",
    "{",
    "10.0.0.1",
    "::1/64",
    "true",
    "2026-01-01T00:00:00Z",
    "9" * 5000,
    "$(A)",
    "\ud7ff",
    "f:a",
    "k:{",
    ".",
]
_NUMBERS: list[Any] = [0, 1, 2, -1, 3, 80, 65536, 2**31, 2**63 - 1, -(2**63), 2**64, 0.5, 1e308, 10**400]
_QUANTITIES = ["1", "0", "1Gi", "100m", "-1", "1e400", "1e-400", "1n", "9" * 400, "", "1.5.5", "Ki"]
_TIMES = [
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00.123456Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59+23:59",
    "2026-13-01",
    "",
]
_JUNK: list[Any] = [
    None,
    [],
    {},
    "",
    "x" * 300,
    -1,
    0,
    2**63 - 1,
    2**64,
    10**400,
    0.5,
    True,
    "1e400",
    [None],
    [[]],
    [{}],
    {"": None},
    {"a": {"b": []}},
    "\x00",
    [""] * 50,
]
_MOST_LEVELS = 9


def junk(dice: random.Random) -> Any:
    """Return a value that is almost never valid. The caller may modify it."""
    return copy.deepcopy(dice.choice(_JUNK))


_DEEP = re.compile(rb'"@(\d+) levels"')


def deep(dice: random.Random) -> str:
    """Return a placeholder for a deeply nested value, which :func:`as_json` writes in its place."""
    return f"@{dice.choice([200, 260, 300, 600, 1000, 1100])} levels"


def as_json(value: Any) -> bytes:
    """Return ``value`` as JSON text."""
    return _DEEP.sub(lambda found: b"[" * int(found[1]) + b"]" * int(found[1]), json.dumps(value).encode())


def field_names(dice: random.Random, levels: int = 3) -> dict[str, Any]:
    """Return a value for ``fieldsV1`` of managedFields, valid or not."""
    made: dict[str, Any] = {}
    for _ in range(dice.randrange(3)):
        key = dice.choice(
            [
                "f:metadata",
                "f:spec",
                "f:data",
                "f:labels",
                "f:a",
                ".",
                "f:",
                "k:{}",
                'k:{"name":"a"}',
                "k:[1]",
                'v:"a"',
                "v:",
                "v:{",
                "i:0",
                "i:x",
                "i:99999999999999999999",
                "x",
                "",
                "k:",
                "k:null",
            ]
        )
        made[key] = field_names(dice, levels - 1) if levels and dice.random() < 0.9 else junk(dice)
    return made


class Values:
    """Creates values of types. One in ``oddness`` values is invalid."""

    def __init__(self, dice: random.Random, oddness: int = 40) -> None:
        self._dice = dice
        self._oddness = oddness

    def make(self, node: Node, name: str = "", level: int = 0) -> Any:
        """Return a value of this type for the member ``name``."""
        dice = self._dice
        if dice.randrange(self._oddness) == 0:
            return deep(dice) if dice.random() < 0.05 else junk(dice)
        if isinstance(node, ListNode):
            return [self.make(node.item, name, level + 1) for _ in range(self._count(level))]
        if isinstance(node, MapNode):
            return {
                dice.choice(_TEXTS): self.make(node.value, name, level + 1) for _ in range(self._count(level))
            }
        if isinstance(node, Struct):
            return self._object(node, level)
        return self._scalar(node, name)

    def _count(self, level: int) -> int:
        return 0 if level > _MOST_LEVELS else self._dice.choice([0, 1, 1, 1, 2, 3])

    def _object(self, node: Struct, level: int) -> dict[str, Any]:
        dice = self._dice
        share = 0.0 if level > _MOST_LEVELS else dice.choice([0.1, 0.3, 0.6])
        made = {
            name: self.make(member.node, name, level + 1)
            for name, member in node.fields.items()
            if name == "name" or dice.random() < share
        }
        if dice.random() < 0.02:
            made["unknown"] = junk(dice)
        return made

    def _scalar(self, scalar: Scalar, name: str) -> Any:
        dice = self._dice
        if name == "fieldsV1":
            return field_names(dice)
        if scalar is Scalar.BOOL:
            return dice.random() < 0.5
        if scalar in (Scalar.INT32, Scalar.INT64, Scalar.FLOAT):
            return dice.choice(_NUMBERS)
        if scalar is Scalar.QUANTITY:
            return dice.choice(_QUANTITIES)
        if scalar in (Scalar.TIME, Scalar.MICRO_TIME):
            return dice.choice(_TIMES)
        if scalar is Scalar.INT_OR_STRING:
            return dice.choice([0, 1, "50%", "http", "", "x" * 100, -1])
        if scalar is Scalar.BYTES:
            return dice.choice(["", "YQ==", "!", "YQ"])
        if scalar is Scalar.ANY:
            return dice.choice([{}, {"a": 1}]) if dice.random() < 0.3 else junk(dice)
        return dice.choice(_TEXTS[:5]) if dice.random() < 0.6 else dice.choice(_TEXTS)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return each member below ``value`` as its container, and its key or index there."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for key, item in items:
        if key not in ("apiVersion", "kind"):
            found += [(value, key), *places(item)]
    return found


EXAMPLES: list[dict[str, Any]] = [
    objects.CLAIM,
    objects.TEMPLATE,
    objects.SLICE,
    objects.CLASS,
    objects.RULE,
    objects.POOL_STATUS,
    *objects.CORE,
]
