"""Write objects whose stored form differs from the form that requests use."""

from __future__ import annotations

from dra_shared.jsontext import dumps

from dra_apiserver.kindkit.behaviour import Persistence
from dra_apiserver.storage.records import Record
from dra_apiserver.storage.store import ChangeFunction, Put, Remove


def persist(persistence: Persistence, change: ChangeFunction) -> ChangeFunction:
    """Convert `change`, which handles objects in the form of requests, to a change of stored objects."""

    def change_stored(current: Record | None) -> Put | Remove | None:
        seen = current
        if current is not None:
            seen = Record(current.key, current.revision, dumps(persistence.decode(current.data)))
        outcome = change(seen)
        if isinstance(outcome, Put):
            return Put(persistence.encode(outcome.obj), outcome.counted)
        if isinstance(outcome, Remove) and current is not None:
            # Removing an object needs no conversion, because only its metadata may change.
            return Remove({**current.object(), "metadata": outcome.obj["metadata"]})
        return outcome

    return change_stored
