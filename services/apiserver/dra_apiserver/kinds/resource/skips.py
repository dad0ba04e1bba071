"""Validate the node operations that a slice's devices do not need (validateSkipNodeOperations)."""

from __future__ import annotations

from dra_apiserver.common.goshapes import show
from dra_apiserver.common.lists import find_repeated
from dra_apiserver.errors import FieldError, duplicate, invalid, not_supported

_PREPARE, _UNPREPARE, _ALL = "NodePrepareResources", "NodeUnprepareResources", "*"
_KNOWN = (_ALL, _PREPARE, _UNPREPARE)


def check_skips(operations: list[str] | None, path: str) -> list[FieldError]:
    """Validate operations: known ones, each once. Devices that are prepared must be unprepared."""
    operations = operations or []
    errors: list[FieldError] = []
    if _PREPARE in operations and _UNPREPARE not in operations and _ALL not in operations:
        text = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"
        errors.append(invalid(path, show(operations), text))
    errors += [
        duplicate(f"{path}[{index}]", operations[index]) for index in sorted(find_repeated(operations))
    ]
    return errors + [
        not_supported(f"{path}[{index}]", operation, _KNOWN)
        for index, operation in enumerate(operations)
        if operation not in _KNOWN
    ]
