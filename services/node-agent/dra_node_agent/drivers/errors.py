"""Errors that all drivers have in common."""


class DriverConfigError(ValueError):
    """A driver cannot start with its options; the message is for the user."""


class PrepareError(Exception):
    """A claim cannot be prepared or unprepared; the message goes to the kubelet and into the pod's events."""
