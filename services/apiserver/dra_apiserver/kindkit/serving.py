"""Parts of a kind's record that say how it is served: subresources, selectable fields, types, tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.version import DEFAULT
from dra_shared.version import Version as KubernetesVersion

Cells = Callable[[JsonObject, datetime], list[Any]]
"""Returns the cells of an object's row; ages count from the given time."""
FieldLabelError = Callable[[str, str, str], str]
"""Returns why a field selector cannot name a label, given the apiVersion, the kind and the label."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of an object with a path, verbs and possibly a kind of its own (``pods/binding`` takes a Binding)."""

    name: str
    verbs: frozenset[str]
    group: str
    version: str
    kind: str


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """The paths in the scaled object from which ``autoscaling/v1`` Scale is made."""

    spec_replicas: str
    status_replicas: str
    label_selector: str


@dataclass(frozen=True, slots=True)
class SelectableField:
    """A label that field selectors may name, and the paths to its value."""

    label: str
    paths: tuple[tuple[str, ...], ...]
    absent: str = ""

    def value(self, obj: JsonObject) -> str:
        """Return the field's value in ``obj`` in the text form that selectors compare."""
        for path in self.paths:
            current: Any = obj
            for key in path:
                current = current.get(key) if isinstance(current, dict) else None
            if current is True:
                return "true"
            if current is False:
                return "false"
            if current is not None and current != "":
                return str(current)
        return self.absent


@dataclass(frozen=True, slots=True)
class FieldSelection:
    """The fields by which objects can be selected."""

    fields: Mapping[str, SelectableField] = field(default_factory=dict)
    indexed: str = ""
    """The label by which lists find objects without reading all others (the registries' TriggerFunc)."""
    label_error: FieldLabelError | None = None
    """Returns why a selector cannot name a label; None for the conversion that most kinds have."""


@dataclass(frozen=True, slots=True)
class Release:
    """The properties of a kind in one range of Kubernetes versions."""

    kubernetes: KubernetesVersion = DEFAULT
    """The version of Kubernetes whose types the objects have."""
    hashed_version: str = ""
    """The version that upstream stores objects in, if it is another one: discovery has its hash."""
    subresources: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By version, the subresources that it has. A version without an entry has all."""
    feature_gate: str = ""
    """The feature gate without which the kind is not served."""


@dataclass(frozen=True, slots=True)
class TypeSource:
    """The source of the kind's types, and options for decoding bodies of these types."""

    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By version, the schema that a definition gives. Empty if the schema data has the kind's types."""
    names_itself: bool = False
    """True if a body must say its apiVersion and kind, as that of a custom resource."""
    has_messages: bool = False
    """True if objects have a protobuf form although `schemas` has their types: those of an aggregated server."""
    strategic_merge: bool = True
    """True if strategic merge patches are accepted."""
    selects_by_labels: bool = False
    """True if `spec.selector` is a map of labels; otherwise it is a LabelSelector."""
    rewrite_body: Callable[[bytes], bytes] | None = None
    """Changes the body of a write before it is read; None leaves it."""


@dataclass(frozen=True, slots=True)
class Column:
    """The definition of a table's column. Only wide output shows those of ``priority`` 1 and more."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Printer:
    """The columns and cells of a table of objects (upstream's ``pkg/printers/internalversion``).

    ``sort_key`` orders the rows of a list; ``row_conditions`` returns a row's conditions.
    """

    columns: Sequence[Column]
    cells: Cells
    sort_key: Callable[[JsonObject], Any] | None = None
    row_conditions: Callable[[JsonObject], list[JsonObject] | None] | None = None
