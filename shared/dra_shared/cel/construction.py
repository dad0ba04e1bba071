"""Code of list, map and message literals (evalList, evalMap, evalObj of cel-go's interpreter/interpretable.go)."""

from collections.abc import Sequence
from typing import Any

from dra_shared.cel import messages
from dra_shared.cel.access import UNHASHABLE, unhashable
from dra_shared.cel.attributes import Frame, Run
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.values import OptionalValue, StructValue, go_type, to_text


def plain_list(runs: Sequence[Run]) -> Run:
    return lambda frame: [run(frame) for run in runs]


def optional_list(runs: Sequence[Run], optional: frozenset[int]) -> Run:
    def build(frame: Frame) -> list[Any]:
        values: list[Any] = []
        for index, run in enumerate(runs):
            value = run(frame)
            if index in optional:
                if type(value) is not OptionalValue:
                    raise EvaluationError(
                        f"cannot initialize optional list element from non-optional value {to_text(value)}"
                    )
                if not value.present:
                    continue
                value = value.value
            values.append(value)
        return values

    return build


def _optional(value: Any, entry: str) -> OptionalValue:
    if type(value) is not OptionalValue:
        raise EvaluationError(
            f"cannot initialize optional entry '{entry}' from non-optional value {to_text(value)}"
        )
    return value


def map_builder(entries: Sequence[tuple[Run, Run, bool]]) -> Run:
    def build(frame: Frame) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        for key_run, value_run, optional in entries:
            key, value = key_run(frame), value_run(frame)
            if optional:
                given = _optional(value, to_text(key))
                if not given.present:
                    values.pop(key, None)
                    continue
                value = given.value
            values[hashable(key)] = value
        return values

    return build


def struct_builder(name: str, fields: Sequence[tuple[str, Run, bool]]) -> Run:
    make = messages.maker(name)

    def build(frame: Frame) -> Any:
        values: dict[str, Any] = {}
        for key, run, optional in fields:
            value = run(frame)
            if optional:
                given = _optional(value, key)
                if not given.present:
                    values.pop(key, None)
                    continue
                value = given.value
            values[key] = value
        return StructValue(name, values) if make is None else make(values)

    return build


def hashable(key: Any) -> Any:
    """Return the key in a hashable form. A list may be the key of an entry, but no lookup finds it."""
    if isinstance(key, list):
        return tuple(hashable(item) for item in key)
    if type(key) in UNHASHABLE:
        raise unhashable(key)
    try:
        hash(key)
    except TypeError:
        raise EvaluationError(f"unsupported key type: {go_type(key)}") from None
    return key
