"""The objects that refer to each other by name, and what was found out of them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from dra_shared.classic.asked import ClassParts, Parameters
from dra_shared.classic.drivers import is_vendor_group
from dra_shared.classic.fields import Fields, Object, mapping, subject_of
from dra_shared.classic.notes import Notes
from dra_shared.classic.parameters import IN_TREE_GROUP, parameters, unknown

Find = Callable[[str, str, str, str], Object | None]
"""The object of a group, kind, namespace and name; the namespace is empty for one of the cluster."""


def group_of(obj: Object) -> str:
    """The API group of an object."""
    return str(obj.get("apiVersion", "")).rpartition("/")[0]


def finder(objects: Iterable[Object]) -> Find:
    """Finds an object among those of manifests, where namespaces are often left out."""
    found: dict[tuple[str, str, str], dict[str, Object]] = {}
    for obj in objects:
        meta = mapping(obj.get("metadata"))
        same = found.setdefault((group_of(obj), str(obj.get("kind", "")), str(meta.get("name", ""))), {})
        same[str(meta.get("namespace") or "default")] = obj

    def find(group: str, kind: str, namespace: str, name: str) -> Object | None:
        return found.get((group, kind, name), {}).get(str(namespace or "default"))

    return find


def generated_from(objects: Iterable[Object]) -> Find:
    """Finds the in-tree parameters that a driver made from parameters of its own, by the latter."""
    found: dict[tuple[str, str, str, str], Object] = {}
    for obj in objects:
        origin = mapping(obj.get("generatedFrom"))
        if group_of(obj) == IN_TREE_GROUP and origin:
            namespace = str(mapping(obj.get("metadata")).get("namespace") or "default")
            group, kind, name = (str(origin.get(key, "")) for key in ("apiGroup", "kind", "name"))
            found[group, kind, namespace, name] = obj

    def find(group: str, kind: str, namespace: str, name: str) -> Object | None:
        return found.get((group, kind, str(namespace or "default"), name))

    return find


@dataclass(slots=True)
class World:
    """Looks referenced objects up, and reads each once.

    ``notes`` are those about objects with parameters; ``classes`` is what was found out of ResourceClasses,
    ``missing`` the parameters that are not there.
    """

    find: Find
    find_generated: Find = lambda group, kind, namespace, name: None
    notes: dict[str, Notes] = field(default_factory=dict)
    classes: dict[str, ClassParts] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    _read: dict[tuple[int, str], Parameters] = field(default_factory=dict)
    # Holds the objects, whose ids would be used again otherwise.
    _objects: dict[int, Object] = field(default_factory=dict)

    def read(self, obj: Object, driver: str = "") -> Parameters:
        """Return what an object with parameters says. Those of an unknown kind go to ``driver``."""
        known_kind = _is_known(obj)
        key = id(obj), "" if known_kind else driver
        if key not in self._read:
            notes = Notes(subject_of(obj))
            if not self.has_read(obj):
                notes = self.notes.setdefault(notes.subject, notes)
            self._objects[id(obj)] = obj
            self._read[key] = parameters(obj, notes) if known_kind else unknown(obj, driver, notes)
        return self._read[key]

    def has_read(self, obj: Object) -> bool:
        """True if the object was read as the parameters of a claim or class."""
        return id(obj) in self._objects

    def referenced(self, fields: Fields, name: str, namespace: str, driver: str) -> Parameters | None:
        """What the object says that a field refers to; None where there is no such field, or no such object."""
        reference = fields.inner(name)
        if not reference.content:
            return None
        # Documents often have the version in it, or an apiVersion instead.
        group = (reference.text("apiGroup") or reference.text("apiVersion")).partition("/")[0]
        kind, wanted = reference.text("kind"), reference.text("name")
        namespace = reference.text("namespace") or namespace
        reference.rest("a reference has no such field")
        obj = self.find_generated(group, kind, namespace, wanted) or self.find(group, kind, namespace, wanted)
        if obj is None and namespace:
            obj = self.find(group, kind, "", wanted)
        if obj is None:
            self.missing.add(f"{kind} {wanted}")
            fields.lost(name, f"{kind} {wanted} is not there, so that what it says is not known")
            return None
        if _is_known(obj):
            fields.moved(name, f"what {kind} {wanted} says is part of this object")
        else:
            fields.lost(name, f"nothing is known of the kind {kind}: see {subject_of(obj)}")
        return self.read(obj, driver)


def _is_known(obj: Object) -> bool:
    """True if the parameters are Kubernetes' own or those of a known driver."""
    return is_vendor_group(group_of(obj)) or group_of(obj) == IN_TREE_GROUP
