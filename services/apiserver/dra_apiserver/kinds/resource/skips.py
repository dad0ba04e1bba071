"""Validate the node operations that a slice's devices do not need (validateSkipNodeOperations)."""

from __future__ import annotations

from collections.abc import Collection

from dra_apiserver.common.goshapes import show
from dra_apiserver.errors import FieldError, invalid, not_supported

_PREPARE, _UNPREPARE, _ALL = "NodePrepareResources", "NodeUnprepareResources", "*"
_KNOWN = (_ALL, _PREPARE, _UNPREPARE)


def check_skips(operations: list[str] | None, path: str, stored: Collection[str] = ()) -> list[FieldError]:
    """Validate operations: each must be known, unless it is `stored`.

    To skip prepare calls, unprepare calls must be skipped, too. A declared rule finds duplicates.
    """
    operations = operations or []
    errors: list[FieldError] = []
    if _PREPARE in operations and _UNPREPARE not in operations and _ALL not in operations:
        text = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"
        errors.append(invalid(path, show(operations), text))
    return errors + [
        not_supported(f"{path}[{index}]", operation, _KNOWN)
        for index, operation in enumerate(operations)
        if operation not in _KNOWN and operation not in stored
    ]
