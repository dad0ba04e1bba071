"""Errors that all drivers have in common."""

from pathlib import Path


class DriverConfigError(ValueError):
    """A driver cannot start with its options. The message is for the user."""


class PrepareError(Exception):
    """A claim cannot be prepared or unprepared. The message goes to the kubelet and into the pod's events."""


class CheckpointError(PrepareError):
    """A driver's checkpoint is damaged. Someone has to repair it, because the driver must not use its contents."""


def make_directory(driver: str, path: Path) -> None:
    """Create a directory of ``driver``.

    Raises:
        DriverConfigError: it cannot be created.
    """
    if path.is_dir():
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DriverConfigError(f"{driver} cannot make its directory {path}: {error.strerror}") from error
