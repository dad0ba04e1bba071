"""Errors of patches."""

from typing import Any


class PatchError(Exception):
    """A patch can't be applied. ``code`` and ``reason`` are those of the Status, ``str()`` is its message."""

    def __init__(self, message: str, code: int = 400, reason: str = "BadRequest") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class ApplyConflict(PatchError):
    """Other managers own fields that an apply sets. ``causes`` are part of the Status details."""

    def __init__(self, message: str, causes: list[dict[str, Any]]) -> None:
        super().__init__(message, 409, "Conflict")
        self.causes = causes
