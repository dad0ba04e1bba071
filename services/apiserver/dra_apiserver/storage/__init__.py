"""The store of objects and their history, and the databases behind it."""

from dra_apiserver.storage.collection import Collection
from dra_apiserver.storage.records import (
    ADDED,
    DELETED,
    MODIFIED,
    Counted,
    Event,
    Record,
    Resource,
    object_key,
)
from dra_apiserver.storage.store import Put, Remove, Store

__all__ = [
    "ADDED",
    "DELETED",
    "MODIFIED",
    "Collection",
    "Counted",
    "Event",
    "Put",
    "Record",
    "Remove",
    "Resource",
    "Store",
    "object_key",
]
