"""Tests that run a service in their own process: what it sets for the whole process is undone."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def same_process() -> Iterator[None]:
    """Logging and garbage collection are afterwards as they were before."""
    configured, before, thresholds = structlog.is_configured(), structlog.get_config(), gc.get_threshold()
    try:
        yield
    finally:
        structlog.configure(**before)
        if not configured:
            structlog.reset_defaults()
        structlog.contextvars.clear_contextvars()
        gc.set_threshold(*thresholds)
