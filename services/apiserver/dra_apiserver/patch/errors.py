"""Why a patch was refused."""

from typing import Any


class PatchError(Exception):
    """A patch that can't be applied: ``code`` and ``reason`` for the Status, ``str()`` for its message."""

    def __init__(self, message: str, code: int = 400, reason: str = "BadRequest") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class ApplyConflict(PatchError):
    """Fields that an apply wants belong to other managers; ``causes`` go into the Status details."""

    def __init__(self, message: str, causes: list[dict[str, Any]]) -> None:
        super().__init__(message, 409, "Conflict")
        self.causes = causes
