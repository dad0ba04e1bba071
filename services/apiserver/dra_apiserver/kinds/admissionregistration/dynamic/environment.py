"""The environment of admission expressions, and their compilation (apiserver's plugin/cel)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from dra_shared.cel import CompileError
from dra_shared.cel import types as t
from dra_shared.cel.rules import Rule, compile_over
from dra_shared.cel.types import Kind, Type

_VARIABLES: Final = "kubernetes.variables"


def _struct(name: str) -> Type:
    return Type(Kind.STRUCT, f"kubernetes.{name}")


_STRINGS: Final = t.list_of(t.STRING)
_TEXTS: Final = t.map_of(t.STRING, t.STRING)
_STRUCTS: Final[dict[str, Mapping[str, Type]]] = {
    "kubernetes.GroupVersionKind": dict.fromkeys(("group", "version", "kind"), t.STRING),
    "kubernetes.GroupVersionResource": dict.fromkeys(("group", "version", "resource"), t.STRING),
    "kubernetes.UserInfo": {
        "username": t.STRING,
        "uid": t.STRING,
        "groups": _STRINGS,
        "extra": t.map_of(t.STRING, _STRINGS),
    },
    "kubernetes.AdmissionRequest": {
        "kind": _struct("GroupVersionKind"),
        "resource": _struct("GroupVersionResource"),
        "subResource": t.STRING,
        "requestKind": _struct("GroupVersionKind"),
        "requestResource": _struct("GroupVersionResource"),
        "requestSubResource": t.STRING,
        "name": t.STRING,
        "namespace": t.STRING,
        "operation": t.STRING,
        "userInfo": _struct("UserInfo"),
        "dryRun": t.BOOL,
        "options": t.DYN,
    },
    "kubernetes.Namespace": {
        "metadata": _struct("NamespaceMetadata"),
        "spec": _struct("NamespaceSpec"),
        "status": _struct("NamespaceStatus"),
    },
    "kubernetes.NamespaceMetadata": {
        "name": t.STRING,
        "generateName": t.STRING,
        "namespace": t.STRING,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "UID": t.STRING,
        "creationTimestamp": t.TIMESTAMP,
        "deletionGracePeriodSeconds": t.INT,
        "deletionTimestamp": t.TIMESTAMP,
        "generation": t.INT,
        "resourceVersion": t.STRING,
        "finalizers": _STRINGS,
    },
    "kubernetes.NamespaceSpec": {"finalizers": _STRINGS},
    "kubernetes.NamespaceStatus": {"conditions": t.list_of(_struct("NamespaceCondition")), "phase": t.STRING},
    "kubernetes.NamespaceCondition": {
        **dict.fromkeys(("status", "type", "message", "reason"), t.STRING),
        "lastTransitionTime": t.TIMESTAMP,
    },
}
_JSON_PATCH: Final[Mapping[str, Type]] = {
    **dict.fromkeys(("op", "path", "from"), t.STRING),
    "value": t.DYN,
}
OBJECT: Final = Type(Kind.STRUCT, "Object")
PATCHES: Final = t.list_of(Type(Kind.STRUCT, "JSONPatch"))


class _Members(Mapping[str, Type]):
    """The members of a struct that may have further members. These all have the same type."""

    def __init__(self, known: Mapping[str, Type], other: Type) -> None:
        self._known = known
        self._other = other

    def __getitem__(self, key: str) -> Type:
        return self._known.get(key, self._other)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


# An object may have any members. A patch has no others than the declared ones, but upstream returns an unnamed
# type for them.
_ANY_MEMBERS: Final = _Members({}, t.DYN)
_PATCH_MEMBERS: Final = _Members(_JSON_PATCH, Type(Kind.STRUCT, ""))


class _Structs(Mapping[str, Mapping[str, Type]]):
    """The structs of mutating policies: those of every policy, patches, and `Object.…` with any name."""

    def __init__(self, known: Mapping[str, Mapping[str, Type]]) -> None:
        self._known = {**known, "JSONPatch": _PATCH_MEMBERS}

    def __getitem__(self, key: str) -> Mapping[str, Type]:
        if key == "Object" or key.startswith("Object."):
            return _ANY_MEMBERS
        return self._known[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression, or the text of its error."""

    text: str
    names: tuple[str, ...] = ()
    rule: Rule | None = None
    problem: str = ""
    internal: bool = False


@dataclass(slots=True)
class Environment:
    """The names that expressions may use. `variables` are those of the policy, by name."""

    params: bool = False
    authorizer: bool = True
    composed: bool = True
    variables: dict[str, Type] = field(default_factory=dict)

    def compile(
        self,
        text: str,
        accepted: tuple[Type, ...] = (),
        *,
        patches: bool = False,
        authorizer: bool | None = None,
    ) -> Expression:
        """Compile an expression. Its result must be of one of the accepted types, if there are any."""
        asks = self.authorizer if authorizer is None else authorizer
        declared = dict(self._declare(asks))
        structs: Mapping[str, Mapping[str, Type]] = {**_STRUCTS, _VARIABLES: self.variables}
        try:
            rule = compile_over(text, declared, _Structs(structs) if patches else structs, patches=patches)
        except CompileError as error:
            return Expression(text, problem=error.text, internal=error.kind == "InternalError")
        if accepted and rule.output_type not in accepted:
            wanted = " ".join(kind.declared_name for kind in accepted)
            wanted = wanted if len(accepted) == 1 else f"one of [{wanted}]"
            return Expression(
                text, problem=f"must evaluate to {wanted} but got {rule.output_type.declared_name}"
            )
        return Expression(text, tuple(declared), rule)

    def _declare(self, asks: bool) -> Iterator[tuple[str, Type]]:
        yield "object", t.DYN
        yield "oldObject", t.DYN
        yield "namespaceObject", _struct("Namespace")
        yield "request", _struct("AdmissionRequest")
        if self.params:
            yield "params", t.DYN
        if asks:
            yield "authorizer", t.AUTHORIZER
            yield "authorizer.requestResource", t.RESOURCE_CHECK
        if self.composed:
            yield "variables", _struct("variables")

    def add_variable(self, name: str, text: str) -> Expression:
        """Compile one of the policy's variables, and declare it for later expressions."""
        made = self.compile(text)
        self.variables[name] = t.DYN if made.rule is None else _declared_type(made.rule.output_type)
        return made


def _declared_type(kind: Type) -> Type:
    """Return the declared type of a policy variable: its own if it is a scalar, list or map, and otherwise dyn."""
    if kind.kind in (Kind.LIST, Kind.MAP):
        return Type(kind.kind, kind.name, *map(_declared_type, kind.params))
    return kind if kind in _PLAIN else t.DYN


_PLAIN: Final = frozenset(
    (t.ANY, t.BOOL, t.BYTES, t.DOUBLE, t.DURATION, t.INT, t.NULL, t.STRING, t.TIMESTAMP, t.UINT)
)
