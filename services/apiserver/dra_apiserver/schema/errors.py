"""Errors of rejected bodies."""

from collections.abc import Mapping, Sequence


class DecodeError(Exception):
    """The body is not an object of the kind.

    ``code``, ``reason`` and ``causes`` are for the Status, ``str()`` is its message.
    """

    def __init__(
        self,
        message: str,
        code: int = 400,
        reason: str = "BadRequest",
        causes: Sequence[Mapping[str, str]] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.causes = list(causes)
