"""Look up members of lists, maps and objects (cel-go's `interpreter/attributes.go` and `common/types`)."""

from typing import Any, Final

from dra_shared.cel.errors import EvaluationError, Panic
from dra_shared.cel.network import Cidr, Ip
from dra_shared.cel.values import (
    EMPTY,
    LISTS,
    NONE,
    NUMBERS,
    DomainMap,
    Duration,
    InvalidValue,
    LazyMap,
    NamedFormat,
    StructValue,
    Timestamp,
    TypeValue,
    Uint,
    go_type,
    to_text,
    type_name,
)
from dra_shared.semver import Semver

_KEYED: Final = frozenset((type(None), Duration, TypeValue, Ip, Cidr))
#: Types whose values cannot be keys of Go's maps.
UNHASHABLE: Final = frozenset((NamedFormat, Semver, bytes))


def unhashable(key: Any) -> Panic:
    """Return an error with the text of Go's panic for a map key that cannot be hashed."""
    return Panic(f"runtime error: hash of unhashable type {go_type(key)}")


def find(container: dict[Any, Any], key: Any) -> tuple[Any, bool]:
    """Return a map's value for a key, and whether the key exists.

    Numbers match across types; bools match only bools.
    """
    kind = type(key)
    if kind is str:
        if key in container:
            value = container[key]
            if type(value) is InvalidValue:
                raise EvaluationError(value.problem)
            return value, True
    elif kind in NUMBERS or kind is bool:
        for mine, value in container.items():
            if (type(mine) is bool) is (kind is bool) and mine == key:
                return value, True
    if type(container) is DomainMap:
        return EMPTY, True
    for mine, value in container.items():
        if type(mine) is kind and _same_key(mine, key):
            return value, True
    if container and kind in UNHASHABLE:
        raise unhashable(key)
    return None, False


def _same_key(mine: Any, key: Any) -> bool:
    """True if Go treats two keys that are not numbers as the same map key. Most values are compared as pointers."""
    if type(key) is Timestamp:
        return bool(mine == key and mine.offset == key.offset)
    return mine is NONE is key or (type(key) in _KEYED and bool(mine == key))


def list_index(index: Any) -> int:
    """Convert a value to a list index."""
    kind = type(index)
    if kind is int:
        return int(index)
    if kind is float:
        if index.is_integer() and abs(index) < 1 << 63:
            return int(index)
        raise EvaluationError(f"unsupported index value {to_text(index)} in list")
    if kind is Uint:
        if index < 1 << 63:
            return int(index)
        raise EvaluationError(f"unsupported index value {to_text(index)} in list")
    raise EvaluationError(f"unsupported index type '{type_name(index)}' in list")


def qualify(container: Any, key: Any) -> Any:
    """Return ``container[key]``. Raises the errors of a selection."""
    value, found = lookup(container, key)
    if found:
        return value
    if type(container) in LISTS:
        raise EvaluationError(f"index out of bounds: {to_text(key)}")
    raise EvaluationError(f"no such key: {to_text(key)}")


def lookup(container: Any, key: Any) -> tuple[Any, bool]:
    """Return the member of a container for a key, and whether the container has that key."""
    kind = type(container)
    if kind is dict or kind is DomainMap:
        return find(container, key)
    if kind in LISTS:
        index = list_index(key)
        if 0 <= index < len(container):
            return container[index], True
    if kind is LazyMap:
        found: tuple[Any, bool] = container.find(key)
        return found
    if kind is StructValue:
        return container.fields.get(key), key in container.fields
    return None, False
