"""The operations of a JSON patch (RFC 6902), with the deviations and messages of Kubernetes' library.

The text before a path's first slash is ignored, indexes may be negative, `replace` may name a missing member,
and `copy` of a missing member creates a null. A test compares numbers as they are written.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject
from dra_shared.numerals import integer

_INDEX = re.compile(r"[+-]?[0-9]+").fullmatch
_MISSING = "missing value"
# kube-apiserver's JSONPatchMaxCopyBytes: otherwise, copies of copies grow exponentially.
_MOST_COPIED: Final = 3 << 20


class OperationFailed(Exception):
    """An operation fails. The text is the library's."""


class TestFailed(OperationFailed):
    """The condition of a test operation does not hold."""

    __test__ = False


def apply_operations(document: Any, operations: list[Any]) -> Any:
    """Return ``document``, which is modified, after the operations.

    Raises:
        OperationFailed: an operation fails.
        TypeError: an operation lacks a value without which the library panics.
    """
    known: dict[str, Callable[[Any, JsonObject], Any]] = {**_OPERATIONS, "copy": _Copying()}
    for operation in operations:
        members = operation if isinstance(operation, dict) else {}
        kind = members.get("op")
        if not isinstance(kind, str):
            raise OperationFailed("Unexpected kind: unknown")
        if kind not in known:
            raise OperationFailed(f"Unexpected kind: {kind}")
        document = known[kind](document, members)
    return document


def _pointer(operation: JsonObject, member: str, missing: str) -> str:
    pointer = operation.get(member)
    if not isinstance(pointer, str):
        raise OperationFailed(f"{operation['op']} operation failed to decode {member}: {missing}")
    return pointer


def _path(operation: JsonObject) -> str:
    return _pointer(operation, "path", f"operation missing path field: {_MISSING}")


def _plain_path(operation: JsonObject) -> str:
    return _pointer(operation, "path", _MISSING)


def _from(operation: JsonObject) -> str:
    return _pointer(operation, "from", f"operation, missing from field: {_MISSING}")


def _container(document: Any, pointer: str) -> tuple[Any, str]:
    """Return the object or list that a pointer's last step leads into, or None; and that step."""
    _, *steps = pointer.split("/")
    if not steps:
        return None, ""
    *parents, last = (step.replace("~1", "/").replace("~0", "~") for step in steps)
    for step in parents:
        try:
            document = _get(document, step)
        except OperationFailed:
            return None, ""
        if not isinstance(document, dict | list):
            return None, ""
    return document, last


def _number(step: str) -> int:
    if not _INDEX(step):
        quoted = '"' + step + '"'
        raise OperationFailed(f"strconv.Atoi: parsing {quoted}: invalid syntax")
    return integer(step)


def _index(step: str, length: int) -> int:
    index = _number(step)
    if not -length <= index < length:
        raise OperationFailed(f"Unable to access invalid index: {index}: invalid index referenced")
    return index % length


def _get(container: Any, step: str) -> Any:
    if isinstance(container, dict):
        return container.get(step)
    return container[_index(step, len(container))]


def _insert(container: Any, step: str, value: Any) -> None:
    if isinstance(container, dict):
        container[step] = value
    elif step == "-":
        container.append(value)
    else:
        try:
            _number(step)
        except OperationFailed as error:
            raise OperationFailed(f"value was not a proper array index: '{step}': {error}") from None
        container.insert(_index(step, len(container) + 1), value)


def _delete(container: Any, step: str) -> None:
    if isinstance(container, list):
        del container[_index(step, len(container))]
    elif step in container:
        del container[step]
    else:
        raise OperationFailed(f"Unable to remove nonexistent key: {step}: {_MISSING}")


def _add(document: Any, operation: JsonObject) -> Any:
    path = _plain_path(operation)
    container, step = _container(document, path)
    if container is None:
        raise OperationFailed(f'add operation does not apply: doc is missing path: "{path}": {_MISSING}')
    try:
        _insert(container, step, copy_value(operation.get("value")))
    except OperationFailed as error:
        raise OperationFailed(f"error in add for path: '{path}': {error}") from None
    return document


def _remove(document: Any, operation: JsonObject) -> Any:
    path = _plain_path(operation)
    container, step = _container(document, path)
    if container is None:
        raise OperationFailed(f'remove operation does not apply: doc is missing path: "{path}": {_MISSING}')
    try:
        _delete(container, step)
    except OperationFailed as error:
        raise OperationFailed(f"error in remove for path: '{path}': {error}") from None
    return document


def _replace(document: Any, operation: JsonObject) -> Any:
    path = _path(operation)
    if not path:
        value = _value(operation)
        if not isinstance(value, dict | list):
            raise OperationFailed("replace operation value must be object or array: %!w(<nil>)")
        return copy_value(value)
    container, step = _container(document, path)
    if container is None:
        raise OperationFailed(f"replace operation does not apply: doc is missing path: {path}: {_MISSING}")
    if isinstance(container, dict):
        container[step] = copy_value(operation.get("value"))
        return document
    try:
        index = _index(step, len(container))
    except OperationFailed:
        raise OperationFailed(
            f"replace operation does not apply: doc is missing key: {path}: {_MISSING}"
        ) from None
    container[index] = copy_value(operation.get("value"))
    return document


def _value(operation: JsonObject) -> Any:
    if "value" not in operation:
        # Upstream's library panics here.
        raise OperationFailed(f"{operation['op']} operation value must be object or array: %!w(<nil>)")
    return operation["value"]


def _move(document: Any, operation: JsonObject) -> Any:
    origin = _from(operation)
    container, step = _container(document, origin)
    if container is None:
        raise OperationFailed(
            f"move operation does not apply: doc is missing from path: {origin}: {_MISSING}"
        )
    try:
        value = _get(container, step)
        _delete(container, step)
    except OperationFailed as error:
        raise OperationFailed(f"error in move for path: '{step}': {error}") from None
    path = _path(operation)
    container, step = _container(document, path)
    if container is None:
        raise OperationFailed(
            f"move operation does not apply: doc is missing destination path: {path}: {_MISSING}"
        )
    try:
        _insert(container, step, value)
    except OperationFailed as error:
        raise OperationFailed(f"error in move for path: '{path}': {error}") from None
    return document


class _Copying:
    """The `copy` operations of one patch, with a limit on the bytes that they add in total."""

    def __init__(self) -> None:
        self._added = 0

    def __call__(self, document: Any, operation: JsonObject) -> Any:
        origin = _from(operation)
        container, step = _container(document, origin)
        if container is None:
            raise OperationFailed(
                f"copy operation does not apply: doc is missing from path: {origin}: {_MISSING}"
            )
        try:
            value = _get(container, step)
        except OperationFailed as error:
            raise OperationFailed(f"error in copy for from: '{origin}': {error}") from None
        path = _plain_path(operation)
        container, step = _container(document, path)
        if container is None:
            raise OperationFailed(
                f"copy operation does not apply: doc is missing destination path: {path}: {_MISSING}"
            )
        self._added += len(dumps(value))
        if self._added > _MOST_COPIED:
            raise OperationFailed(
                f"Unable to complete the copy, the accumulated size increase of copy is {self._added}, "
                f"exceeding the limit {_MOST_COPIED}"
            )
        try:
            _insert(container, step, copy_value(value))
        except OperationFailed as error:
            raise OperationFailed(f"error while adding value during copy: {error}") from None
        return document


def _test(document: Any, operation: JsonObject) -> Any:
    path = _path(operation)
    if not path:
        found, wanted = document, _value(operation)
    else:
        container, step = _container(document, path)
        if container is None:
            raise OperationFailed(f"test operation does not apply: is missing path: {path}: {_MISSING}")
        try:
            found = _get(container, step)
        except OperationFailed as error:
            raise OperationFailed(f"error in test for path: '{path}': {error}") from None
        wanted = operation.get("value")
    if not _same(found, wanted):
        raise TestFailed(f"testing value {path} failed: test failed")
    return document


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return type(left) is type(right) and bool(left == right)


def copy_value(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copy_value(one) for key, one in value.items()}
    return [copy_value(one) for one in value] if isinstance(value, list) else value


_OPERATIONS = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "test": _test,
}
