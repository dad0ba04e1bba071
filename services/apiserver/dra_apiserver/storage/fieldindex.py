"""An index of objects by the value of one field (``storage.Indexers`` of apiserver's cacher)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dra_apiserver.storage.records import Record

ValueOf = Callable[[bytes], str]
"""Reads the field's value from an object's JSON."""


class FieldIndex:
    """Maps values of a field to keys.

    Changed objects are indexed at the next search, once however often they changed.
    """

    def __init__(self, value_of: ValueOf, keys: Iterable[str]) -> None:
        self._value_of = value_of
        self._values: dict[str, str] = {}
        self._keys: dict[str, set[str]] = {}
        self._changed = set(keys)

    def note_change(self, key: str) -> None:
        """Note that the object with the key is new, changed or deleted."""
        self._changed.add(key)

    def find(self, value: str, records: Mapping[str, Record]) -> list[str]:
        """Return the keys of the records that have the value, in order."""
        changed, self._changed = self._changed, set()
        for key in changed:
            self._place(key, records.get(key))
        return sorted(self._keys.get(value, ()))

    def _place(self, key: str, record: Record | None) -> None:
        before = self._values.pop(key, None)
        if before is not None:
            same = self._keys[before]
            same.discard(key)
            if not same:
                del self._keys[before]
        if record is not None:
            value = self._values[key] = self._value_of(record.data)
            self._keys.setdefault(value, set()).add(key)
