"""Errors that the user of a command or a library can act on."""


class UserError(Exception):
    """A problem that the user can solve. A command shows it as ``dralab: <message>`` and exits with ``code``."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code
