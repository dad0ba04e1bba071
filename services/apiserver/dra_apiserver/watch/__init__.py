"""Watches: which events a client selects, and the stream that brings them."""

from dra_apiserver.watch.selection import Selection
from dra_apiserver.watch.stream import WatchStream

__all__ = ["Selection", "WatchStream"]
