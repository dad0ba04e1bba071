"""Less work for the garbage collector where very many objects live long."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# After so many new objects the youngest are looked through; a world of a large cluster has millions that stay.
_THRESHOLDS = (50_000, 20, 100)


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Collect garbage rarely as long as the context lasts: for a process that does little else."""
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
