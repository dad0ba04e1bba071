"""Why a body in CBOR is refused, in the words of github.com/fxamacker/cbor."""


class CborError(ValueError):
    """An item that can't be accepted. ``outermost``: it is the outermost map that is wrong."""

    def __init__(self, message: str, *, outermost: bool = False) -> None:
        super().__init__(message)
        self.outermost = outermost


class IllFormed(CborError):
    """The bytes are no CBOR item, or one that the protocol leaves out altogether."""
