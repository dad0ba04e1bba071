"""How the command fails: one clear line and an exit code."""


class CommandError(Exception):
    """Something the user can act on; shown as ``dralab: <message>``."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code
