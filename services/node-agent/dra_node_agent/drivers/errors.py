"""Errors that all drivers have in common."""


class DriverConfigError(ValueError):
    """A driver is asked to start with options that cannot be; the message is for whoever gave them."""


class PrepareError(Exception):
    """A claim cannot be prepared or unprepared; the message goes to the kubelet and into the pod's events."""
