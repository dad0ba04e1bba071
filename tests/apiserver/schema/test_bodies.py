"""Test that reading a body in one step has the same result as reading it field by field."""

import json
import random
from typing import Any

import orjson
import pytest
from dra_apiserver.schema.bodies import plain_object
from dra_apiserver.schema.reader import Reader, TypeMismatch
from dra_apiserver.schema.types import ListNode, MapNode, Node, Scalar, Struct, definition

from tests.support.cases import each_case

_TYPES = [
    "io.k8s.api.core.v1.Pod",
    "io.k8s.api.core.v1.Node",
    "io.k8s.api.core.v1.Service",
    "io.k8s.api.apps.v1.Deployment",
    "io.k8s.api.coordination.v1.Lease",
    "io.k8s.api.resource.v1.ResourceClaim",
    "io.k8s.api.resource.v1.ResourceSlice",
    "io.k8s.api.resource.v1beta1.ResourceSlice",
]
_ODD: list[Any] = [None, "", 0, -0.0, 1.0, 2**40, True, False, {}, [], "x", [None], {"a": None}, "\u0000"]
_VALUES: dict[Scalar, Any] = {
    Scalar.STRING: ["a", 'b":null', "c\\d", "é", "1.5"],
    Scalar.BOOL: [True],
    Scalar.INT32: [1, 7],
    Scalar.INT64: [1, 2**40],
    Scalar.FLOAT: [1.5, 2],
    Scalar.BYTES: ["YQ=="],
    Scalar.TIME: ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.25+01:00"],
    Scalar.MICRO_TIME: ["2026-01-02T03:04:05.000001Z"],
    Scalar.QUANTITY: ["1", "1000m", "4Gi"],
    Scalar.INT_OR_STRING: [80, "http"],
    Scalar.ANY: [1, "x", {"a": [1, {"b": "c"}]}],
}


def struct(name: str) -> Struct:
    found = definition(name)
    assert isinstance(found, Struct)
    return found


def value(rng: random.Random, node: Node, odd: float, depth: int = 0) -> Any:
    if rng.random() < odd:
        return rng.choice(_ODD)
    if isinstance(node, Scalar):
        return rng.choice(_VALUES[node])
    if isinstance(node, ListNode):
        return [value(rng, node.item, odd, depth + 1) for _ in range(rng.randint(0, 2))]
    if isinstance(node, MapNode):
        return {rng.choice("abc"): value(rng, node.value, odd, depth + 1) for _ in range(rng.randint(0, 2))}
    members = list(node.fields.values())
    made = {
        one.name: value(rng, one.node, odd, depth + 1)
        for one in rng.sample(members, min(len(members), rng.randint(0, 6 if depth < 8 else 0)))
    }
    if rng.random() < odd:
        made["unknown"] = rng.choice(_ODD)
    return made


@each_case("name", _TYPES)
def test_decoding_in_one_step_gives_the_same_result_as_the_full_reader(name: str) -> None:
    rng = random.Random(name)
    node = struct(name)
    plain = 0
    for round_ in range(400):
        made = value(rng, node, odd=0.002 * (round_ % 4))
        body = orjson.dumps(made) if round_ % 2 else json.dumps(made).encode()
        found = plain_object(node, body)
        if found is None:
            continue
        plain += 1
        wanted, reader = orjson.loads(body), Reader()
        reader.read(node, wanted)
        assert orjson.dumps(found) == orjson.dumps(wanted)
        assert reader.strict == []
    assert plain > 100


@each_case(
    "body",
    [
        b'{"spec":{"unknown":1}}',
        b'{"spec":{"nodeName":"a","nodeName":"b"}}',
        b'{"spec":{"nodeName":"a","\\u006eodeName":"b"}}',
        b'{"spec":{"nodeName":""}}',
        b'{"spec":{"nodeName":null}}',
        b'{"spec":{"nodeName" :"a"}}',
        b'{"spec": {"nodeName": ""}}',
        b'{"spec": {"nodeName":  ""}}',
        b'{"spec":{"priority":1.0}}',
        b'{"spec":{"priority":2147483648}}',
        b'{"spec":{"hostNetwork":false}}',
        b'{"spec":{"containers":[null]}}',
        b'{"metadata":{"creationTimestamp":"yesterday"}}',
        b'{"metadata":{"labels":{"a":"\xff"}}}',
        b'{"spec":',
        b"[]",
    ],
)
def test_unusual_bodies_are_left_to_the_full_reader(body: bytes) -> None:
    assert plain_object(struct("io.k8s.api.core.v1.Pod"), body) is None


def test_an_integer_that_is_written_as_a_float_is_refused() -> None:
    obj = json.loads('{"spec":{"priority":1.0}}')
    with pytest.raises(TypeMismatch):
        Reader().read(struct("io.k8s.api.core.v1.Pod"), obj)


def test_recursive_types_are_left_to_the_full_reader() -> None:
    node = struct("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition")
    assert plain_object(node, b'{"kind":"CustomResourceDefinition"}') is None
