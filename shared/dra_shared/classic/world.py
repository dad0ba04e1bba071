"""Objects that refer to each other by name, and the content that was read from them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from dra_shared.classic.asked import ClassParts, Parameters
from dra_shared.classic.drivers import is_vendor_group
from dra_shared.classic.fields import Fields, mapping, subject_of
from dra_shared.classic.notes import Notes
from dra_shared.classic.parameters import IN_TREE_GROUP, parameters, read_unknown
from dra_shared.jsontypes import JsonObject

Find = Callable[[str, str, str, str], JsonObject | None]
"""Returns the object of a group, kind, namespace and name. The namespace is empty for a cluster-scoped object."""


def group_of(obj: JsonObject) -> str:
    """Return the API group of an object."""
    return str(obj.get("apiVersion", "")).rpartition("/")[0]


def find_among(objects: Iterable[JsonObject]) -> Find:
    """Return a function that finds objects of manifests, where namespaces are often missing."""
    found: dict[tuple[str, str, str], dict[str, JsonObject]] = {}
    for obj in objects:
        meta = mapping(obj.get("metadata"))
        same = found.setdefault((group_of(obj), str(obj.get("kind", "")), str(meta.get("name", ""))), {})
        same[str(meta.get("namespace") or "default")] = obj

    def find(group: str, kind: str, namespace: str, name: str) -> JsonObject | None:
        return found.get((group, kind, name), {}).get(str(namespace or "default"))

    return find


def find_generated_among(objects: Iterable[JsonObject]) -> Find:
    """Return a function that finds the in-tree parameters that a driver generated from its own parameters."""
    found: dict[tuple[str, str, str, str], JsonObject] = {}
    for obj in objects:
        origin = mapping(obj.get("generatedFrom"))
        if group_of(obj) == IN_TREE_GROUP and origin:
            namespace = str(mapping(obj.get("metadata")).get("namespace") or "default")
            group, kind, name = (str(origin.get(key, "")) for key in ("apiGroup", "kind", "name"))
            found[group, kind, namespace, name] = obj

    def find(group: str, kind: str, namespace: str, name: str) -> JsonObject | None:
        return found.get((group, kind, str(namespace or "default"), name))

    return find


@dataclass(slots=True)
class World:
    """Looks up referenced objects, and reads each once.

    ``notes`` are those about parameters objects. ``classes`` has the content of ResourceClasses, ``missing``
    the parameters that do not exist.
    """

    find: Find
    find_generated: Find = lambda group, kind, namespace, name: None
    notes: dict[str, Notes] = field(default_factory=dict)
    classes: dict[str, ClassParts] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    _read: dict[tuple[int, str], Parameters] = field(default_factory=dict)
    # Keeps the objects alive, because their ids would be reused otherwise.
    _objects: dict[int, JsonObject] = field(default_factory=dict)

    def read(self, obj: JsonObject, driver: str = "") -> Parameters:
        """Read a parameters object. Parameters of an unknown kind are passed to ``driver``."""
        known_kind = _is_known(obj)
        key = id(obj), "" if known_kind else driver
        if key not in self._read:
            notes = Notes(subject_of(obj))
            if not self.has_read(obj):
                notes = self.notes.setdefault(notes.subject, notes)
            self._objects[id(obj)] = obj
            self._read[key] = parameters(obj, notes) if known_kind else read_unknown(obj, driver, notes)
        return self._read[key]

    def has_read(self, obj: JsonObject) -> bool:
        """True if the object was read as the parameters of a claim or class."""
        return id(obj) in self._objects

    def read_referenced(self, fields: Fields, name: str, namespace: str, driver: str) -> Parameters | None:
        """Return the content of the object that a field refers to; None if the field or the object does not exist."""
        reference = fields.inner(name)
        if not reference.content:
            return None
        # Some documents include the version, or have an apiVersion instead.
        group = (reference.text("apiGroup") or reference.text("apiVersion")).partition("/")[0]
        kind, wanted = reference.text("kind"), reference.text("name")
        namespace = reference.text("namespace") or namespace
        reference.rest("a reference has no such field")
        obj = self.find_generated(group, kind, namespace, wanted) or self.find(group, kind, namespace, wanted)
        if obj is None and namespace:
            obj = self.find(group, kind, "", wanted)
        if obj is None:
            self.missing.add(f"{kind} {wanted}")
            fields.note_lost(name, f"{kind} {wanted} is missing, so its content is not converted")
            return None
        if _is_known(obj):
            fields.note_moved(name, f"the content of {kind} {wanted} is part of this object")
        else:
            fields.note_lost(name, f"the kind {kind} is unknown: see {subject_of(obj)}")
        return self.read(obj, driver)


def _is_known(obj: JsonObject) -> bool:
    """True if the parameters are Kubernetes' own or those of a known driver."""
    return is_vendor_group(group_of(obj)) or group_of(obj) == IN_TREE_GROUP
