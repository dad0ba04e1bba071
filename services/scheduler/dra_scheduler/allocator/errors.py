"""Errors that end an allocation, with upstream's texts."""


class AllocationError(Exception):
    """The claims cannot be handled; ``str()`` is the text that upstream gives.

    ``only_this_node`` mirrors upstream's ErrFailedAllocationOnNode: other nodes may still be tried, and the text only
    matters when none of them works out.
    """

    def __init__(self, text: str, *, only_this_node: bool = False) -> None:
        super().__init__(text)
        self.only_this_node = only_this_node


class TimeLimit(AllocationError):
    """Raised by the caller's ``check`` to stop the search; ``cause`` says why."""

    def __init__(self, cause: str = "context deadline exceeded") -> None:
        super().__init__(f"filter operation aborted: {cause}")
        self.cause = cause


class ClassLookupError(LookupError):
    """A device class could not be retrieved; the text goes into the allocation error."""
