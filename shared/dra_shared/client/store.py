"""The objects of an informer by key, with indexes."""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from dra_shared.api.meta import Object

T = TypeVar("T", bound=Object)

IndexFunc = Callable[[T], Iterable[str]]


class Store(Generic[T]):
    """Objects by their key (``namespace/name`` or ``name``), in the state of the last event."""

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._indexes: dict[str, _Index[T]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def get(self, key: str) -> T | None:
        """Return the object of that key, or None."""
        return self._objects.get(key)

    def list(self) -> Sequence[T]:
        """Return all objects."""
        return list(self._objects.values())

    def keys(self) -> Sequence[str]:
        """Return the keys of all objects."""
        return list(self._objects)

    def add_index(self, name: str, function: IndexFunc[T]) -> None:
        """Index present and future objects by each value that ``function`` returns for them."""
        index = self._indexes[name] = _Index(function)
        for key, obj in self._objects.items():
            index.put(key, obj)

    def by_index(self, name: str, value: str) -> Sequence[T]:
        """Return the objects for which the index function returns ``value``.

        Raises:
            KeyError: there is no such index.
        """
        keys = self._indexes[name].keys.get(value)
        return [self._objects[key] for key in keys] if keys else []

    def put(self, obj: T) -> None:
        """Add ``obj``, or replace the object of that key."""
        key = obj.key
        self._objects[key] = obj
        for index in self._indexes.values():
            index.put(key, obj)

    def pop(self, key: str) -> T | None:
        """Remove and return the object of that key."""
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._indexes.values():
                index.drop(key)
        return old


class _Index(Generic[T]):
    def __init__(self, function: IndexFunc[T]) -> None:
        self.keys: dict[str, dict[str, None]] = {}
        self._function = function
        self._values: dict[str, tuple[str, ...]] = {}

    def put(self, key: str, obj: T) -> None:
        values = tuple(self._function(obj))
        if values == self._values.get(key, ()):
            return
        self.drop(key)
        for value in values:
            self.keys.setdefault(value, {})[key] = None
        if values:
            self._values[key] = values

    def drop(self, key: str) -> None:
        for value in self._values.pop(key, ()):
            keys = self.keys.get(value)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del self.keys[value]
