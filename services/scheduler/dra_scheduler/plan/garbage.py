"""Reduce Python's garbage collection in processes with very many long-lived objects."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Collect the youngest generation after this many new objects. A large cluster's world has millions of objects
# that stay.
_THRESHOLDS = (50_000, 20, 100)


@contextmanager
def collect_rarely() -> Iterator[None]:
    """Collect garbage rarely inside the context."""
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
