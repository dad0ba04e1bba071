"""Read an old object, and note every field that was not used."""

from collections.abc import Iterator
from typing import Any

from dra_shared.classic.notes import Notes
from dra_shared.jsontypes import JsonObject

# Fields that the cluster writes, and kubectl's copy of the whole object.
_WRITTEN = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def mapping(value: Any) -> JsonObject:
    """Return the value if it is a mapping, else an empty one.

    Manifests may have mistakes that a server would reject.
    """
    return value if isinstance(value, dict) else {}


def entries(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


class Fields:
    """The fields of one old object. Each is taken once; `rest` notes those that were not taken."""

    def __init__(self, content: Any, notes: Notes, prefix: str = "") -> None:
        self.content = mapping(content)
        self.notes = notes
        self._prefix = prefix
        self.taken: set[str] = set()

    def path(self, name: str = "") -> str:
        """Return the full path of a field."""
        return ".".join(filter(None, (self._prefix, name)))

    def take(self, name: str) -> Any:
        """Return the value of a field and mark it as used; None if it is absent."""
        self.taken.add(name)
        return self.content.get(name)

    def text(self, name: str) -> str:
        """Return the value of a text field; empty if it is absent or has another type."""
        value = self.take(name)
        return value if isinstance(value, str) else ""

    def inner(self, name: str) -> "Fields":
        """Return the fields of a field that is an object."""
        return Fields(self.take(name), self.notes, self.path(name))

    def each(self, name: str) -> "list[Fields]":
        """Return the fields of each entry of a field that is a list."""
        found = entries(self.take(name))
        return [Fields(entry, self.notes, f"{self.path(name)}[{i}]") for i, entry in enumerate(found)]

    def note_moved(self, name: str, text: str) -> None:
        """Note that a field has a successor."""
        self.notes.note_moved(self.path(name), text)

    def note_implied(self, name: str, text: str) -> None:
        """Note that v1 always does what the field requests, or does it by default."""
        self.notes.note_implied(self.path(name), text)

    def note_lost(self, name: str, text: str) -> None:
        """Note that a field has no successor."""
        self.notes.note_lost(self.path(name), text)

    def rest(self, why: str) -> None:
        """Note every field that was not taken as lost."""
        for name, value in self.content.items():
            if name not in self.taken:
                for path in _leaves(value, self.path(name)):
                    self.notes.note_lost(path, why)


def _leaves(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, below in value.items():
            yield from _leaves(below, f"{path}.{name}")
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        for index, below in enumerate(value):
            yield from _leaves(below, f"{path}[{index}]")
    else:
        yield path


def take_metadata(fields: Fields) -> JsonObject:
    """Return an object's metadata without the fields that the cluster writes."""
    fields.take("apiVersion")
    fields.take("kind")
    found = mapping(fields.take("metadata"))
    meta = {name: value for name, value in found.items() if name not in _WRITTEN}
    if gone := sorted(_WRITTEN & set(found)):
        fields.note_implied("metadata", f"{', '.join(gone)}: the cluster writes this")
    annotations = {k: v for k, v in mapping(meta.get("annotations")).items() if k != _LAST_APPLIED}
    meta.pop("annotations", None)
    return {**meta, "annotations": annotations} if annotations else meta


def subject_of(obj: JsonObject) -> str:
    """Return the name of an object in reports."""
    meta = mapping(obj.get("metadata"))
    name = meta.get("name") or meta.get("generateName") or "(no name)"
    where = f"{meta['namespace']}/{name}" if meta.get("namespace") else name
    return f"{obj.get('kind')} {where}"
