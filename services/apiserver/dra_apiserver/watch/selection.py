"""Select objects for a list or watch, and decide what a change of an object means for it."""

from __future__ import annotations

from collections.abc import Iterable

import orjson
from dra_shared.fieldselectors import FieldSelector
from dra_shared.selectors import LabelSelector

from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.storage import ADDED, DELETED, MODIFIED, Collection, Event, Record

_Traits = tuple[dict[str, str], dict[str, str]]


def _traits(kind: Kind, data: bytes) -> _Traits:
    obj = orjson.loads(data)
    fields = {label: field.value(obj) for label, field in kind.field_selection.fields.items()}
    return obj["metadata"].get("labels") or {}, fields


class Selection:
    """A namespace (or all), a label selector and a field selector."""

    def __init__(self, kind: Kind, namespace: str, labels: LabelSelector, fields: FieldSelector) -> None:
        self._kind = kind
        self.prefix = f"{namespace}/" if namespace else ""
        self._labels = labels
        self._fields = fields
        self.everything = labels.empty and fields.empty
        self._source = ("traits", kind.group)
        name, within = fields.exact("metadata.name"), fields.exact("metadata.namespace")
        self.key: str | None = None
        """The only key that can match, where the selector names one."""
        if name is not None and (namespace or within or not kind.namespaced):
            self.key = f"{namespace or within}/{name}" if kind.namespaced else name
        known = kind.field_selection
        self._indexed = fields.exact(known.indexed) if known.indexed in known.fields else None

    def keys(self, collection: Collection, after: str = "") -> list[str]:
        """Return the sorted keys after `after` of the objects that may be selected."""
        if self._indexed is None:
            return collection.range(self.prefix, after)
        found = collection.find_having(self._kind.field_selection.indexed, self._indexed, self._value)
        return [key for key in found if key > after and key.startswith(self.prefix)]

    def _value(self, data: bytes) -> str:
        """Return an object's value of the indexed field."""
        known = self._kind.field_selection
        return known.fields[known.indexed].value(orjson.loads(data))

    def _matches(self, traits: _Traits) -> bool:
        labels, fields = traits
        return self._labels.matches(labels) and self._fields.matches(lambda label: fields.get(label, ""))

    def filter(self, records: Iterable[Record]) -> list[Record]:
        """Return the selected records of those in the namespace."""
        if self.everything:
            return list(records)
        if self.key is not None and self._labels.empty and len(self._fields.terms) == 1:
            return [record for record in records if record.key == self.key]
        kind = self._kind
        return [record for record in records if self._matches(_traits(kind, record.data))]

    def judge(self, event: Event) -> str | None:
        """Return the event's type for this selection: ADDED, MODIFIED, DELETED; None if it is not selected."""
        if not event.key.startswith(self.prefix):
            return None
        if self.everything:
            return event.type
        if self.key is not None and event.key != self.key:
            return None
        before = event.type != ADDED and self._matches(self._before(event))
        now = event.type != DELETED and self._matches(self._now(event))
        if before:
            return MODIFIED if now else DELETED
        return ADDED if now else None

    def _now(self, event: Event) -> _Traits:
        found: _Traits | None = event.cache.get((self._source, "now"))
        if found is None:
            found = _traits(self._kind, event.record.data)
            event.remember((self._source, "now"), found)
        return found

    def _before(self, event: Event) -> _Traits:
        found: _Traits | None = event.cache.get((self._source, "before"))
        if found is None:
            # A deleted object's last state is not tested: it was selected if its previous state was. If that
            # is unknown, the last state decides.
            known = event.previous or event.record
            found = _traits(self._kind, known.data)
            event.remember((self._source, "before"), found)
        return found
