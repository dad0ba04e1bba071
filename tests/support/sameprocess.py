"""Undo process-wide settings of services that tests run in their own process."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def same_process() -> Iterator[None]:
    """Restore logging and garbage collection afterwards."""
    configured, before, thresholds = structlog.is_configured(), structlog.get_config(), gc.get_threshold()
    try:
        yield
    finally:
        structlog.configure(**before)
        if not configured:
            structlog.reset_defaults()
        structlog.contextvars.clear_contextvars()
        gc.set_threshold(*thresholds)
