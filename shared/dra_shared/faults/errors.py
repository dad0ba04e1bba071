"""Errors of faults."""


class FaultError(ValueError):
    """The fault does not exist, or its target does not."""


class UnknownNode(FaultError):
    """The node does not exist here."""
