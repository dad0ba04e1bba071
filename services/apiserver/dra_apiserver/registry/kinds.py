"""What the API server knows of one kind: names, versions, verbs, subresources, selectable fields."""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]

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
class PrinterColumn:
    """An ``additionalPrinterColumns`` entry of a custom resource."""

    name: str
    type: str
    json_path: str
    priority: int = 0
    format: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class CustomVersion:
    """What a CustomResourceDefinition says about one of its versions."""

    schema: Mapping[str, Any]
    columns: tuple[PrinterColumn, ...] = ()
    deprecated: bool = False
    deprecation_warning: str = ""
    subresources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KindInfo:
    """One kind as it is served.

    ``versions`` are those served now, most preferred first; ``storage_version`` is the one objects are kept
    in, whether or not it is served. ``storage`` names the table of objects: two kinds with one ``storage``
    (core and events.k8s.io Event) are views of the same objects. ``deprecated`` has, for some versions, the
    text that clients are warned with.
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
    scale: ScalePaths | None = None
    all_versions: tuple[str, ...] = ()
    deprecated: Mapping[str, str] = field(default_factory=dict)
    custom: Mapping[str, CustomVersion] | None = None

    def subresources_in(self, version: str) -> Mapping[str, Subresource]:
        """The subresources as one version has them: those of a custom resource may differ."""
        if self.custom is None or version not in self.custom:
            return self.subresources
        own = self.custom[version].subresources
        return {name: found for name, found in self.subresources.items() if name in own}

    @property
    def list_kind(self) -> str:
        """The kind of a list of these objects."""
        return self.kind + "List"

    @property
    def has_status(self) -> bool:
        """Whether the status is written through a subresource of its own."""
        return "status" in self.subresources

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
        text = f"{self.storage[0]}/{self.storage_version}/{self.kind}"
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
