"""events.k8s.io: the core group's Event under other names."""

from collections.abc import Callable

from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import FieldError, invalid
from dra_apiserver.schema.reader import complete
from dra_apiserver.schema.types import type_of


def check_event(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate an event: it must be in the namespace of its object."""
    namespace = (obj.get("metadata") or {}).get("namespace", "")
    about = (obj.get("involvedObject") or {}).get("namespace", "")
    good = about == namespace if about else namespace in ("", "default", "kube-system")
    if good:
        return []
    return [invalid("involvedObject.namespace", about, "does not match event.namespace")]


Convert = Callable[[JsonObject], None]

# Field of the stored core Event -> field of the events.k8s.io Event. All other fields have the same name.
_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}


def _rename(obj: JsonObject, names: dict[str, str], group: str) -> None:
    moved = {new: obj.pop(old) for old, new in names.items() if old in obj}
    obj.update((key, value) for key, value in moved.items() if value not in (None, ""))
    node = type_of(group, "v1", "Event")
    if node is not None:
        complete(node, obj)


def to_core(obj: JsonObject) -> None:
    _rename(obj, {new: old for old, new in _NAMES.items()}, "")


def from_core(obj: JsonObject) -> None:
    _rename(obj, _NAMES, "events.k8s.io")
    for name in ("reportingInstance", "reason", "action", "type"):
        if not obj.get(name, True):
            del obj[name]
