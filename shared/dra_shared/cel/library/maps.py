"""Insertion into maps. The macros that transform maps expand to it.

Mirrors cel-go's ext/comprehensions.go.
"""

from typing import Any, Final

from dra_shared.cel.access import find
from dra_shared.cel.declarations import Function, function, overload
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.values import to_text


def insert(target: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    if find(dict(target), key)[1]:
        raise EvaluationError(f"insert failed: key {to_text(key)} already exists")
    return {**target, key: value}


def insert_all(target: dict[Any, Any], more: dict[Any, Any]) -> dict[Any, Any]:
    for key, value in more.items():
        target = insert(target, key, value)
    return target


FUNCTIONS: Final[tuple[Function, ...]] = (
    function(
        "cel.@mapInsert",
        overload("@mapInsert_map_key_value(map<K, V>, K, V) map<K, V>", insert),
        overload("@mapInsert_map_map(map<K, V>, map<K, V>) map<K, V>", insert_all),
    ),
)
