"""Watches: which events a client selects, the stream that brings them, and where it goes."""

from dra_apiserver.watch.outlet import outlet
from dra_apiserver.watch.selection import Selection
from dra_apiserver.watch.stream import WatchStream

__all__ = ["Selection", "WatchStream", "outlet"]
