"""Types of API objects, compiled from schema data on first use.

A built-in object's type is a :class:`Struct` with the fields of its Go struct. Pointers and omitempty
determine the encoded form. A custom resource's type comes from its CustomResourceDefinition.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from dra_shared.version import DEFAULT, Version

from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.schema.embedded import EMBEDDED
from dra_apiserver.schema.packages import definitions, filter_present, package_name

_REF = "#/components/schemas/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"


class Scalar(Enum):
    """The type of a single value."""

    STRING = "string"
    BOOL = "bool"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT = "float64"
    BYTES = "[]uint8"
    TIME = "v1.Time"
    MICRO_TIME = "v1.MicroTime"
    QUANTITY = "resource.Quantity"
    INT_OR_STRING = "intstr.IntOrString"
    ANY = "any"

    # Members are singletons. The inherited hash would cost a Python call at every look-up.
    __hash__ = object.__hash__


class ListType(Enum):
    """The identity of a list's items in server-side apply."""

    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


@dataclass(frozen=True, slots=True, eq=False)
class ListNode:
    """A list. ``merge_key`` and ``strategies`` are for strategic merge patches."""

    item: "Node"
    list_type: ListType = ListType.ATOMIC
    keys: tuple[str, ...] = ()
    merge_key: str = ""
    strategies: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class MapNode:
    """A map from text to values of one type."""

    value: "Node"
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """A member of a struct.

    ``go`` is its Go type in error messages. ``droppable``: the encoded object omits an empty value.
    ``always``: the encoded object has this member even if it is not set. ``step`` is its name in
    managedFields. ``whole``: its value is owned as a whole.
    """

    name: str
    node: "Node"
    go: str
    pointer: bool = False
    omit_empty: bool = True
    omit_zero: bool = False
    atomic: bool = False
    strategies: frozenset[str] = frozenset()
    droppable: bool = field(init=False)
    always: bool = field(init=False)
    step: str = field(init=False)
    whole: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", f"f:{self.name}")
        object.__setattr__(self, "whole", self.atomic or is_whole(self.node))
        omitted = self.omit_empty or self.omit_zero
        plain = isinstance(self.node, ListNode | MapNode) or self.node in _PLAIN
        object.__setattr__(self, "droppable", omitted and not self.pointer and plain)
        if self.omit_zero or self.pointer or not self.omit_empty:
            always = not omitted
        else:
            always = isinstance(self.node, Struct) or self.node in _STRUCT_LIKE
        object.__setattr__(self, "always", always)

    def zero(self) -> Any:
        """Return the encoded form of an unset member."""
        if self.pointer:
            return None
        if isinstance(self.node, Struct):
            return self.node.zero()
        if isinstance(self.node, Scalar):
            return _ZERO.get(self.node)
        return None


class Struct:
    """An object with known members. ``open`` keeps unknown ones. ``native`` is false for custom resources."""

    def __init__(
        self,
        name: str,
        raw: Mapping[str, Any],
        *,
        native: bool = True,
        open_: bool = False,
        atomic: bool = False,
        kubernetes: Version = DEFAULT,
    ) -> None:
        self.name = name
        self.native = native
        self.open = open_
        self.atomic = atomic
        self._kubernetes = kubernetes
        self._raw = raw

    @functools.cached_property
    def _properties(self) -> Mapping[str, Any]:
        """The schemas of the members that this version of Kubernetes has."""
        found: Mapping[str, Any] = self._raw.get("properties", {})
        if not self.native or not self.name:
            return found
        return filter_present(self.name, found, self._kubernetes)

    @functools.cached_property
    def fields(self) -> dict[str, Field]:
        """The members by name."""
        return {
            name: _field(name, spec, self.native, self._kubernetes) for name, spec in self._properties.items()
        }

    @functools.cached_property
    def all_fields(self) -> dict[str, Field]:
        """The members by name, including those that only other versions of Kubernetes have."""
        others = {
            name: _field(name, spec, self.native, self._kubernetes)
            for name, spec in self._raw.get("properties", {}).items()
            if name not in self.fields
        }
        return self.fields | others if others else self.fields

    def embedding(self, member: str) -> tuple[str, ...]:
        """Return the Go structs through which ``member`` is embedded.

        For example, a volume's sources are in a struct of their own.
        """
        found = EMBEDDED.get(self.name.rpartition(".")[2])
        return () if found is None or member in found[1] else found[0]

    @functools.cached_property
    def always(self) -> list[Field]:
        """The members that an encoded object always has."""
        return [one for one in self.fields.values() if self.native and one.always]

    @functools.cached_property
    def stated_defaults(self) -> list[tuple[str, Any]]:
        """Members with a default in the schema, and that default. For built-in types, empty defaults are left out."""
        return [
            (name, spec["default"])
            for name, spec in self._properties.items()
            if "default" in spec and (spec["default"] or not self.native)
        ]

    def default(self, name: str) -> Any:
        """Return the default of a member in the schema, which may be empty; None if it has none."""
        return self._properties.get(name, {}).get("default")

    @property
    def droppable(self) -> bool:
        """True if an empty list or map may have to be omitted, or be null."""
        return self.native and any(isinstance(one.node, ListNode | MapNode) for one in self.fields.values())

    @functools.cached_property
    def stated_below(self) -> "Walk":
        """The members whose structs have ``stated_defaults`` at any level below."""
        return self._walk("stated_defaults")

    @functools.cached_property
    def stated_always(self) -> tuple[str, ...]:
        """The structs to visit that exist even if they are not written, because they are not pointers in Go."""
        below = self.stated_below
        return tuple(one.name for one in self.always if one.name in below and below[one.name][0] is Struct)

    @functools.cached_property
    def always_below(self) -> "Walk":
        """The members whose structs have ``always`` members at any level below."""
        return self._walk("always")

    @functools.cached_property
    def droppable_below(self) -> "Walk":
        """The members whose structs are ``droppable`` at any level below."""
        return self._walk("droppable")

    def _walk(self, name: str) -> "Walk":
        found = {}
        for one in self.fields.values():
            below = _below(one.node)
            if below is not None and _reaches(below[1], name, set()):
                found[one.name] = below
        return found

    def zero(self) -> dict[str, Any]:
        """Return the encoded form of a struct that is not set."""
        return {one.name: one.zero() for one in self.always}

    def with_fields(self, fields: dict[str, Field]) -> "Struct":
        """Return this struct with the types of some members replaced."""
        made = Struct(
            self.name,
            self._raw,
            native=self.native,
            open_=self.open,
            atomic=self.atomic,
            kubernetes=self._kubernetes,
        )
        made.fields = self.fields | fields
        return made


Node = Struct | ListNode | MapNode | Scalar
Walk = dict[str, tuple[type, Struct]]
"""Members by name: whether each is a struct, a list or a map of structs, and that struct."""


def is_whole(node: Node) -> bool:
    """True if a value of this type is one field in server-side apply: a scalar, or an atomic list or map."""
    if isinstance(node, ListNode):
        return node.list_type is ListType.ATOMIC
    return isinstance(node, Scalar) or node.atomic


def _below(node: Node) -> tuple[type, Struct] | None:
    inner = node.item if isinstance(node, ListNode) else node.value if isinstance(node, MapNode) else node
    return (type(node), inner) if isinstance(inner, Struct) else None


def _reaches(node: Struct, name: str, seen: set[int]) -> bool:
    if id(node) in seen:
        return False
    seen.add(id(node))
    if getattr(node, name):
        return True
    inner = (_below(one.node) for one in node.fields.values())
    return any(below is not None and _reaches(below[1], name, seen) for below in inner)


_PLAIN = frozenset(
    {Scalar.STRING, Scalar.BOOL, Scalar.INT32, Scalar.INT64, Scalar.FLOAT, Scalar.BYTES, Scalar.ANY}
)
_STRUCT_LIKE = frozenset({Scalar.TIME, Scalar.MICRO_TIME, Scalar.QUANTITY, Scalar.INT_OR_STRING})
_ZERO: dict[Scalar, Any] = {
    Scalar.STRING: "",
    Scalar.BOOL: False,
    Scalar.INT32: 0,
    Scalar.INT64: 0,
    Scalar.FLOAT: 0,
    Scalar.QUANTITY: "0",
    Scalar.INT_OR_STRING: 0,
}
_SPECIAL = {
    f"{_META}.Time": Scalar.TIME,
    f"{_META}.MicroTime": Scalar.MICRO_TIME,
    f"{_META}.FieldsV1": Scalar.ANY,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": Scalar.QUANTITY,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": Scalar.INT_OR_STRING,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": Scalar.ANY,
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": Scalar.ANY,
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": Scalar.ANY,
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": Scalar.ANY,
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": Scalar.ANY,
}


@functools.cache
def definition(name: str, kubernetes: Version = DEFAULT) -> Node:
    """Return the type ``name``, such as ``io.k8s.api.core.v1.PodSpec``, in a version of Kubernetes.

    Raises:
        KeyError: it does not exist.
    """
    if name in _SPECIAL:
        return _SPECIAL[name]
    package, _, short = name.rpartition(".")
    raw = definitions(package)[short]
    if "properties" not in raw:
        return Scalar.ANY if raw.get("type") == "object" else _node(raw, True, kubernetes)
    return Struct(name, raw, atomic=raw.get("x-kubernetes-map-type") == "atomic", kubernetes=kubernetes)


def _field(name: str, spec: Mapping[str, Any], native: bool, kubernetes: Version) -> Field:
    go, flags = spec.get("x-go", ("", "*e" if native else ""))
    return Field(
        name=name,
        node=_node(spec, native, kubernetes),
        go=go,
        pointer="*" in flags,
        omit_empty="e" in flags,
        omit_zero="z" in flags,
        atomic=spec.get("x-kubernetes-map-type") == "atomic",
        strategies=_strategies(spec),
    )


def _strategies(spec: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(filter(None, spec.get("x-kubernetes-patch-strategy", "").split(",")))


def _node(spec: Mapping[str, Any], native: bool, kubernetes: Version = DEFAULT) -> Node:
    reference = spec.get("$ref")
    if reference is None and "allOf" in spec and native:
        reference = spec["allOf"][0].get("$ref")
    if reference is not None:
        return definition(reference.removeprefix(_REF), kubernetes)
    if spec.get("x-kubernetes-int-or-string"):
        return Scalar.INT_OR_STRING
    kind = spec.get("type")
    if kind == "array":
        return _list(spec, native, kubernetes)
    if kind == "object" or (kind is None and "properties" in spec):
        return _object(spec, native, kubernetes)
    return _scalar(spec, kind) if native or kind else Scalar.ANY


def _list(spec: Mapping[str, Any], native: bool, kubernetes: Version) -> ListNode:
    list_type = ListType(spec.get("x-kubernetes-list-type", "atomic"))
    return ListNode(
        item=_node(spec.get("items", {}), native, kubernetes),
        list_type=list_type,
        keys=tuple(spec.get("x-kubernetes-list-map-keys", ())),
        merge_key=spec.get("x-kubernetes-patch-merge-key", ""),
        strategies=_strategies(spec),
    )


def _object(spec: Mapping[str, Any], native: bool, kubernetes: Version) -> Node:
    keep = bool(spec.get("x-kubernetes-preserve-unknown-fields"))
    atomic = spec.get("x-kubernetes-map-type") == "atomic"
    if "properties" in spec:
        return Struct("", spec, native=native, open_=keep, atomic=atomic, kubernetes=kubernetes)
    extra = spec.get("additionalProperties")
    if isinstance(extra, Mapping):
        return MapNode(_node(extra, native, kubernetes), atomic)
    if not native and not keep and extra is None and not spec.get("x-kubernetes-embedded-resource"):
        return Struct("", spec, native=False)
    return Scalar.ANY


def _scalar(spec: Mapping[str, Any], kind: str | None) -> Scalar:
    form = spec.get("format")
    if kind == "string":
        return Scalar.BYTES if form == "byte" else Scalar.STRING
    if kind == "integer":
        return Scalar.INT32 if form == "int32" else Scalar.INT64
    if kind == "number":
        return Scalar.FLOAT
    return Scalar.BOOL if kind == "boolean" else Scalar.ANY


@dataclass(frozen=True, slots=True)
class _CustomCache:
    """Types of custom resources, kept until their definition changes."""

    types: dict[tuple[str, str, str], tuple[Mapping[str, Any], Struct]] = field(default_factory=dict)


_custom = _CustomCache()


def object_type(kind: Kind, version: str) -> Struct:
    """Return the type of a kind's objects in ``version``.

    Raises:
        KeyError: the kind has no schema in that version.
    """
    if kind.unstructured:
        return _custom_type(kind, version)
    return _own_type(kind.group, version, kind.kind, kind.release.kubernetes)


@functools.cache
def _own_type(group: str, version: str, kind: str, kubernetes: Version) -> Struct:
    found = definition(f"{package_name(group, version)}.{kind}", kubernetes)
    if not isinstance(found, Struct):
        raise KeyError(kind)
    return found


def type_of(group: str, version: str, kind: str) -> Struct | None:
    """Return the type of a built-in kind, served or not (a subresource's body, options), or None."""
    try:
        return _own_type(group, version, kind, DEFAULT)
    except KeyError:
        return None


def _custom_type(kind: Kind, version: str) -> Struct:
    schema = kind.types.schemas[version]
    key = (kind.group, version, kind.kind)
    cached = _custom.types.get(key)
    if cached is not None and cached[0] is schema:
        return cached[1]
    base = _node({"type": "object", **schema}, native=False)
    if not isinstance(base, Struct):
        base = Struct(kind.kind, schema, native=False, open_=True)
    made = base.with_fields(
        {
            "apiVersion": Field("apiVersion", Scalar.STRING, "string"),
            "kind": Field("kind", Scalar.STRING, "string"),
            "metadata": Field("metadata", definition(f"{_META}.ObjectMeta"), "v1.ObjectMeta"),
        }
    )
    _custom.types[key] = (schema, made)
    return made
