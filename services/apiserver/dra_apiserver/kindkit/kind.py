"""The record of a kind: how it is served, and how it behaves.

A :class:`Kind` is everything that generic code knows of a kind. Its names and verbs come from the schema
data. Its behaviour is declared in ``dra_apiserver.kinds.<group>.kinds``, under the names that upstream's
strategies and registry stores use. Custom resources fill the same record from their definition
(``dra_apiserver.kinds.custom``). Generic code reads the record and never names a kind.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from dra_shared.version import Version

from dra_apiserver.kindkit.behaviour import (
    Admission,
    Convert,
    Default,
    Deletion,
    Persistence,
    Rewind,
    Validation,
    Warn,
    Writes,
)
from dra_apiserver.kindkit.serving import (
    FieldSelection,
    Printer,
    Release,
    ScalePaths,
    Subresource,
    TypeSource,
)
from dra_apiserver.kindkit.strategy import Strategy

ALL_VERBS = frozenset({"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"})


@dataclass(frozen=True, eq=False, slots=True)
class Kind:
    """One kind as it is served and as it behaves.

    ``versions`` are those served now, most preferred first; ``storage_version`` is the one objects are kept in,
    whether or not it is served. ``storage`` names the table of objects: two kinds with one ``storage`` (core
    and events.k8s.io Event) are views of the same objects. ``deprecated`` has, for deprecated versions, the
    text of the warning to clients.

    The fields from ``strategies`` on are behaviour, with upstream's defaults. ``strategies`` and ``warnings`` are by
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
    scale: ScalePaths | None = None
    all_versions: tuple[str, ...] = ()
    deprecated: Mapping[str, str] = field(default_factory=dict)
    service: str = ""
    """``namespace/name`` of the service that serves the kind in other clusters. Empty for the server's own kinds."""
    release: Release = field(default_factory=Release)
    types: TypeSource = field(default_factory=TypeSource)
    field_selection: FieldSelection = field(default_factory=FieldSelection)

    strategies: Mapping[str, Strategy] = field(default_factory=dict)
    default: Default | None = None
    conversions: Mapping[str, tuple[Convert, Convert]] = field(default_factory=dict)
    persistence: Persistence | None = None
    """Reads and writes stored objects; None if they are stored as requests for `storage_version` see them."""
    seen: Mapping[str, Kind] = field(default_factory=dict)
    """By version, the kind for its requests. In a version without an entry it is this one."""
    printers: Mapping[str, Printer] = field(default_factory=dict)
    older_printers: Mapping[Version, Printer] = field(default_factory=dict)
    """The printers of Kubernetes before these versions."""
    warnings: Mapping[str, Warn] = field(default_factory=dict)
    admission: Admission = field(default_factory=Admission)
    validation: Validation = field(default_factory=Validation)
    writes: Writes = field(default_factory=Writes)
    deletion: Deletion = field(default_factory=Deletion)
    rewind: Rewind = field(default_factory=Rewind)

    unstructured: bool = field(init=False)
    """True if the objects have no types of their own, like those of custom resources."""
    has_status: bool = field(init=False)
    """True if the status is written through its own subresource."""

    def __post_init__(self) -> None:
        # Every write reads them several times.
        object.__setattr__(self, "unstructured", bool(self.types.schemas))
        object.__setattr__(self, "has_status", "status" in self.subresources)

    def strategy_for(self, subresource: str) -> Strategy:
        """Return the strategy of the object, or of one of its subresources."""
        return self.strategies[subresource]

    def subresources_in(self, version: str) -> Mapping[str, Subresource]:
        """Return the subresources of one version. Those of a custom resource may differ between versions."""
        own = self.release.subresources.get(version)
        if own is None:
            return self.subresources
        return {name: found for name, found in self.subresources.items() if name in own}

    @property
    def list_kind(self) -> str:
        """The kind of a list of these objects."""
        return self.kind + "List"

    @property
    def is_stored(self) -> bool:
        """False for kinds whose objects are only sent in requests and never stored, such as reviews and bindings."""
        return "list" in self.verbs and "create" in self.verbs

    @property
    def qualified_name(self) -> str:
        """``plural.group``, the name of a resource in error messages; only ``plural`` in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def storage_api_version(self) -> str:
        """``group/version`` in which objects are stored."""
        return api_version(self.storage[0], self.storage_version)

    def api_version(self, version: str) -> str:
        """Return ``group/version`` of this kind in ``version``."""
        return api_version(self.group, version)

    def storage_version_hash(self) -> str:
        """Return the opaque hash in discovery, equal to upstream's for equal storage versions."""
        text = f"{self.storage[0]}/{self.release.hashed_version or self.storage_version}/{self.kind}"
        return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def api_version(group: str, version: str) -> str:
    """Return ``group/version``, or only ``version`` for the core group."""
    return f"{group}/{version}" if group else version


def split_api_version(text: str) -> tuple[str, str]:
    """Return group and version of an ``apiVersion``. The group is empty for core.

    Raises:
        ValueError: more than one slash.
    """
    if text.count("/") > 1:
        raise ValueError(f"unexpected GroupVersion string: {text}")
    group, slash, version = text.partition("/")
    return (group, version) if slash else ("", group)
