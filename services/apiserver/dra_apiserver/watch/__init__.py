"""Watches: select events for a client, and stream them."""

from dra_apiserver.watch.selection import Selection
from dra_apiserver.watch.stream import WatchStream

__all__ = ["Selection", "WatchStream"]
