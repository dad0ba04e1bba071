"""Why a body was refused."""


class DecodeError(Exception):
    """A body that is no object of the kind: ``code`` and ``reason`` for the Status, ``str()`` for its
    message.
    """

    def __init__(self, message: str, code: int = 400, reason: str = "BadRequest") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
