"""What an informer knows: the objects by key, and indexes over them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from dra_shared.api.meta import Object

T = TypeVar("T", bound=Object)

IndexFunc = Callable[[T], Iterable[str]]


class Store(Generic[T]):
    """Objects by their key (``namespace/name`` or ``name``), in the state that the last event left them."""

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._functions: dict[str, IndexFunc[T]] = {}
        self._indexes: dict[str, dict[str, dict[str, T]]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def get(self, key: str) -> T | None:
        """The object of that key, if it exists."""
        return self._objects.get(key)

    def list(self) -> Sequence[T]:
        """All objects."""
        return list(self._objects.values())

    def keys(self) -> Sequence[str]:
        """The keys of all objects."""
        return list(self._objects)

    def add_index(self, name: str, function: IndexFunc[T]) -> None:
        """Index the objects, present and future, by each value that ``function`` gives for them."""
        self._functions[name] = function
        self._indexes[name] = {}
        for key, obj in self._objects.items():
            self._insert(name, key, obj)

    def by_index(self, name: str, value: str) -> Sequence[T]:
        """The objects for which the index function gives ``value``.

        Raises:
            KeyError: there is no such index.
        """
        return list(self._indexes[name].get(value, {}).values())

    def put(self, obj: T) -> T | None:
        """Take ``obj`` in; gives the object that had its key before."""
        key = obj.key
        old = self._objects.get(key)
        if old is not None:
            self._remove_from_indexes(key, old)
        self._objects[key] = obj
        for name in self._functions:
            self._insert(name, key, obj)
        return old

    def pop(self, key: str) -> T | None:
        """Forget the object of that key; gives it."""
        old = self._objects.pop(key, None)
        if old is not None:
            self._remove_from_indexes(key, old)
        return old

    def _insert(self, name: str, key: str, obj: T) -> None:
        index = self._indexes[name]
        for value in self._functions[name](obj):
            index.setdefault(value, {})[key] = obj

    def _remove_from_indexes(self, key: str, obj: T) -> None:
        for name, function in self._functions.items():
            index = self._indexes[name]
            for value in function(obj):
                entries = index.get(value)
                if entries is not None:
                    entries.pop(key, None)
                    if not entries:
                        del index[value]
