"""Errors that end an allocation, with upstream's texts."""


class AllocationError(Exception):
    """The claims cannot be allocated. ``str()`` is upstream's error text.

    ``only_this_node`` mirrors upstream's ErrFailedAllocationOnNode: other nodes are still tried, and the text
    is reported only if the allocation fails on all of them.
    """

    def __init__(self, text: str, *, only_this_node: bool = False) -> None:
        super().__init__(text)
        self.only_this_node = only_this_node


class TimeLimit(AllocationError):
    """Raised by the caller's ``check`` to stop the search. ``cause`` is the reason."""

    def __init__(self, cause: str = "context deadline exceeded") -> None:
        super().__init__(f"filter operation aborted: {cause}")
        self.cause = cause


class ClassLookupError(LookupError):
    """A device class could not be retrieved. The text becomes part of the allocation error."""
