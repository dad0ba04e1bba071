"""Optional values.

Mirrors cel-go's cel/library.go (optionalLib, version 2). The compiler generates the code of ``or``,
``orValue`` and of optional selections and indices.
"""

from typing import Any, Final

from dra_shared.cel.declarations import Function, function, overload
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.values import (
    NO_OVERLOAD,
    NONE,
    OptionalValue,
    StructValue,
    Timestamp,
    is_list,
    is_map,
    to_text,
    type_name,
)

# The start of the year 1, which is the zero value of Go's time.
_FIRST_MOMENT: Final = -62_135_596_800_000_000_000


def is_zero(value: Any) -> bool:
    """True if optional.ofNonZeroValue drops the value."""
    if value is None:
        return True
    if is_list(value) or is_map(value) or isinstance(value, str | bytes):
        return len(value) == 0
    if isinstance(value, Timestamp):
        return value == _FIRST_MOMENT
    if isinstance(value, StructValue):
        return all(item is None or item == "" for item in value.fields.values())
    return isinstance(value, bool | int | float) and value == 0


def of_non_zero(value: Any) -> OptionalValue:
    return NONE if is_zero(value) else OptionalValue(value)


def unwrap(values: list[Any]) -> list[Any]:
    for value in values:
        if not isinstance(value, OptionalValue):
            raise EvaluationError(f"value {to_text(value)} is not optional")
    return [value.value for value in values if value.present]


def _optional(value: Any, function: str) -> OptionalValue:
    if not isinstance(value, OptionalValue):
        raise EvaluationError(f"{NO_OVERLOAD}: {function}({type_name(value)})")
    return value


FUNCTIONS: Final[tuple[Function, ...]] = (
    function(
        "_[_]",
        overload("optional_list_index_int(optional<list<V>>, int) optional<V>"),
        overload("optional_map_index_value(optional<map<K, V>>, K) optional<V>"),
    ),
    function(
        "_[?_]",
        overload("list_optindex_optional_int(list<V>, int) optional<V>"),
        overload("optional_list_optindex_optional_int(optional<list<V>>, int) optional<V>"),
        overload("map_optindex_optional_value(map<K, V>, K) optional<V>"),
        overload("optional_map_optindex_optional_value(optional<map<K, V>>, K) optional<V>"),
    ),
    function("_?._", overload("select_optional_field(dyn, string) optional<V>")),
    function("optional.of", overload("optional_of(V) optional<V>", OptionalValue)),
    function("optional.ofNonZeroValue", overload("optional_ofNonZeroValue(V) optional<V>", of_non_zero)),
    function("optional.none", overload("optional_none() optional<V>", lambda: NONE)),
    function(
        "value", overload(".optional_value(optional<V>) V", lambda value: _optional(value, "value").get())
    ),
    function(
        "hasValue",
        overload(".optional_hasValue(optional<V>) bool", lambda value: _optional(value, "hasValue").present),
    ),
    function("or", overload(".optional_or_optional(optional<V>, optional<V>) optional<V>")),
    function("orValue", overload(".optional_orValue_value(optional<V>, V) V")),
    function(
        "last",
        overload(
            ".list_last(list<V>) optional<V>",
            lambda values: OptionalValue(values[-1]) if values else NONE,
        ),
    ),
    function(
        "first",
        overload(
            ".list_first(list<V>) optional<V>",
            lambda values: OptionalValue(values[0]) if values else NONE,
        ),
    ),
    function("optional.unwrap", overload("optional_unwrap(list<optional<V>>) list<V>", unwrap)),
    function("unwrapOpt", overload(".optional_unwrapOpt(list<optional<V>>) list<V>", unwrap)),
)
