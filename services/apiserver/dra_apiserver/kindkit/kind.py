"""One kind: how it is served, and how it behaves.

A :class:`Kind` is all that generic code knows of a kind. Its names and verbs come from the schema data; its
behaviour is declared in the kind's room, ``dra_apiserver.kinds.<group>.kinds``, under the names that upstream's
strategies and registry stores use. Custom resources fill the same record from their definition
(``dra_apiserver.kinds.custom``). Generic code asks the record and never names a kind.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dra_shared.names import NameRule, dns_subdomain_name
from dra_shared.version import DEFAULT
from dra_shared.version import Version as KubernetesVersion

from dra_apiserver.authorization import Authorizer
from dra_apiserver.user import UserInfo

if TYPE_CHECKING:
    from dra_apiserver.kindkit.strategy import Context, Strategy

Object = dict[str, Any]
FieldPath = tuple[str, ...]
"""A path to a field as managed fields spell it, such as ``("f:metadata", "f:labels")``."""
Default = Callable[[Object, str, str], None]
"""Sets a kind's defaults in an object in place, given its version and the time of the request ("": none)."""
Convert = Callable[[Object], None]
"""Changes an object in place from one version's form to another's."""
Warn = Callable[[Object, Object | None], Iterable[str]]
"""The warnings of a valid object, and the one that it replaces (None for a new one)."""
Admit = Callable[[Object | None, Object | None, "Context", str], None]
"""An admission plugin: the object, the old one, the request and the operation. Raises StatusError to refuse."""
Plugin = tuple[str, Admit]
"""An admission plugin with its name, by which it can be turned off."""
CheckEscalation = Callable[[Authorizer, UserInfo, str, str, str, Object, Object | None], None]
"""Given the authorizer, the user, the resource, the namespace, the path's name, the new object and the old one."""
Cells = Callable[[Mapping[str, Any], datetime], list[Any]]
"""The cells of an object's row; ages count from the given time."""
FieldLabelError = Callable[["Kind", str, str], str]
"""Why a field selector can't name a label, given the kind, the version and the label."""

ALL_VERBS = frozenset({"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"})


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of an object with a path, verbs and possibly a kind of its own (``pods/binding`` takes a
    Binding).
    """

    name: str
    verbs: frozenset[str]
    group: str
    version: str
    kind: str


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where ``autoscaling/v1`` Scale finds its numbers in the scaled object."""

    spec_replicas: str
    status_replicas: str
    label_selector: str


@dataclass(frozen=True, slots=True)
class SelectableField:
    """A label that field selectors may name, and how to read its value."""

    label: str
    paths: tuple[tuple[str, ...], ...]
    absent: str = ""

    def value(self, obj: Object) -> str:
        """The field's value in ``obj`` in the text form that selectors compare."""
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
class Column:
    """A column of a table, as its definition is served; wide output alone shows those of ``priority`` 1 and more."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Printer:
    """How objects are shown in a table (upstream's ``pkg/printers/internalversion``).

    ``sort_key`` orders the rows of a list; ``row_conditions`` are a row's conditions.
    """

    columns: Sequence[Column]
    cells: Cells
    sort_key: Callable[[Object], Any] | None = None
    row_conditions: Callable[[Object], list[Object] | None] | None = None


def _nothing(_: Object) -> None:
    """Leave the object as it is."""


@dataclass(frozen=True, slots=True)
class Rewind:
    """How objects are put back as they were (`rest/rewind.py`). No counterpart upstream.

    ``stays`` says by its key which object is left as it is now; ``passing`` takes out of an object what changes as
    time passes, which is no difference. ``ended``, given an object as it is now and as it was, says whether what it
    stands for is over, so that it has to begin again; ``begin`` makes an object one that has not begun yet.
    """

    stays: Callable[[str], bool] = lambda _: False
    passing: Callable[[Object], None] = _nothing
    ended: Callable[[Object, Object], bool] = lambda _now, _then: False
    begin: Callable[[Object], bool] = lambda _: False
    """Gives whether there was something to begin."""


@dataclass(frozen=True, eq=False, slots=True)
class Kind:
    """One kind as it is served and as it behaves.

    ``versions`` are those served now, most preferred first; ``storage_version`` is the one objects are kept
    in, whether or not it is served. ``storage`` names the table of objects: two kinds with one ``storage``
    (core and events.k8s.io Event) are views of the same objects. ``deprecated`` has, for some versions, the
    text that clients are warned with.

    What follows ``deprecated`` is behaviour, with upstream's defaults. ``strategies`` and ``warnings`` are by
    subresource, "" for the object itself; ``conversions`` by version: to the stored form, and from it;
    ``printers`` by version, "" for all versions.
    """

    group: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    versions: tuple[str, ...]
    storage_version: str
    storage: tuple[str, str]
    verbs: frozenset[str] = ALL_VERBS
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    selectable_fields: Mapping[str, SelectableField] = field(default_factory=dict)
    indexed_field: str = ""
    """The selectable field by which lists find objects without reading all others (the registries' TriggerFunc)."""
    scale: ScalePaths | None = None
    all_versions: tuple[str, ...] = ()
    deprecated: Mapping[str, str] = field(default_factory=dict)
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By version, the schema that a definition gives; empty where the schema data has the kind's types."""
    names_itself: bool = False
    """Whether a body has to say which kind and version it is of, as that of a custom resource."""
    has_messages: bool = False
    """Whether objects have a protobuf form although `schemas` has their types: those of an aggregated server."""
    hashed_version: str = ""
    """The version that upstream stores objects in, where that is another: discovery has its hash."""
    kubernetes: KubernetesVersion = DEFAULT
    """The version of Kubernetes whose types the objects have."""
    version_subresources: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By version, the subresources that it has; a version without an entry has all."""

    strategies: Mapping[str, Strategy] = field(default_factory=dict)
    default: Default | None = None
    conversions: Mapping[str, tuple[Convert, Convert]] = field(default_factory=dict)
    printers: Mapping[str, Printer] = field(default_factory=dict)
    warnings: Mapping[str, Warn] = field(default_factory=dict)
    mutating_admission: Sequence[Plugin] = ()
    validating_admission: Sequence[Plugin] = ()
    quota_admission: Sequence[Plugin] = ()
    """Those that come last, after policies and webhooks: they count what is going to be stored."""
    exclusive: bool = False
    """Objects get what no other of the kind may have, such as addresses."""
    name_rule: NameRule = dns_subdomain_name
    core_metadata: bool = True
    """Whether finalizers must be qualified, as the core group's validation wants."""
    counts_generation: bool = False
    keeps_status_on_create: bool = False
    feature_gate: str = ""
    allow_create_on_update: bool = False
    allow_unconditional_update: bool = True
    conditional_versions: frozenset[str] = frozenset()
    """Versions whose updates have to say which state of the object they change, although others' need not."""
    return_deleted_object: bool = False
    strategic_merge: bool = True
    selects_by_labels: bool = False
    """Whether `spec.selector` is a map of labels, where others have a LabelSelector."""
    has_expressions: bool = False
    """Whether its objects bring expressions that are compiled, which takes long for their size."""
    rules_take_long: Callable[[str], bool] | None = None
    """By version, whether checking even a small object may take long; None: it does not."""
    orphans_dependents: bool = False
    """Whether dependents stay unless the client says otherwise (DefaultGarbageCollectionPolicy)."""
    orphans_warning: str = ""
    """The warning of a delete that does not say what becomes of dependents."""
    check_graceful_delete: Callable[[Object, int | None], int] | None = None
    """The grace period of an object, in seconds, given the one asked for; None where objects go at once."""
    terminate: Callable[[Object], None] | None = None
    """Marks an object whose deletion begins; None where objects need no ending of their own."""
    is_finalized: Callable[[Object], bool] | None = None
    """Whether the finalizers that are the kind's own are gone; None where there are none."""
    undeletable: Mapping[str, str] = field(default_factory=dict)
    """By name, why an object may not be deleted."""
    check_escalation: CheckEscalation | None = None
    """Refuses, by raising StatusError, a write that would give away more than the user has."""
    reset_fields: Mapping[str, Sequence[FieldPath]] = field(default_factory=dict)
    """By subresource, the fields that a write through it leaves as they are (GetResetFields)."""
    service: str = ""
    """``namespace/name`` of the service that other clusters have the kind from; empty for the server's own."""
    rewrite_body: Callable[[bytes], bytes] | None = None
    """Changes the body of a write before it is read; None leaves it."""
    field_label_error: FieldLabelError | None = None
    """Why a field selector can't name a label; None for the conversion that most kinds have."""
    rewind: Rewind = Rewind()

    unstructured: bool = field(init=False)
    """Whether the objects have no types of their own, as those of custom resources."""
    has_status: bool = field(init=False)
    """Whether the status is written through a subresource of its own."""

    def __post_init__(self) -> None:
        # Every write asks for them several times.
        object.__setattr__(self, "unstructured", bool(self.schemas))
        object.__setattr__(self, "has_status", "status" in self.subresources)

    def strategy_for(self, subresource: str) -> Strategy:
        """The strategy of the object, or of one of its subresources."""
        return self.strategies[subresource]

    def subresources_in(self, version: str) -> Mapping[str, Subresource]:
        """The subresources as one version has them: those of a custom resource may differ."""
        own = self.version_subresources.get(version)
        if own is None:
            return self.subresources
        return {name: found for name, found in self.subresources.items() if name in own}

    @property
    def list_kind(self) -> str:
        """The kind of a list of these objects."""
        return self.kind + "List"

    @property
    def stored(self) -> bool:
        """Whether objects are kept: false for kinds that are only answered (reviews, bindings)."""
        return "list" in self.verbs and "create" in self.verbs

    @property
    def qualified_name(self) -> str:
        """``plural.group`` as error messages name a resource; only ``plural`` in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def storage_api_version(self) -> str:
        """``group/version`` that objects are kept in."""
        return api_version(self.storage[0], self.storage_version)

    def api_version(self, version: str) -> str:
        """``group/version`` of this kind in ``version``."""
        return api_version(self.group, version)

    def storage_version_hash(self) -> str:
        """The opaque hash that discovery shows, equal to upstream's for equal storage versions."""
        text = f"{self.storage[0]}/{self.hashed_version or self.storage_version}/{self.kind}"
        return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def api_version(group: str, version: str) -> str:
    """``group/version``, or only ``version`` for the core group."""
    return f"{group}/{version}" if group else version


def split_api_version(text: str) -> tuple[str, str]:
    """Group and version of an ``apiVersion``; the group is empty for core.

    Raises:
        ValueError: more than one slash.
    """
    if text.count("/") > 1:
        raise ValueError(f"unexpected GroupVersion string: {text}")
    group, slash, version = text.partition("/")
    return (group, version) if slash else ("", group)
