"""Errors of CBOR bodies, with the messages of github.com/fxamacker/cbor."""


class CborError(ValueError):
    """An item that is not accepted. ``outermost``: the error is in the outermost map."""

    def __init__(self, message: str, *, outermost: bool = False) -> None:
        super().__init__(message)
        self.outermost = outermost


class IllFormed(CborError):
    """The bytes are not a CBOR item, or one that the protocol excludes."""
