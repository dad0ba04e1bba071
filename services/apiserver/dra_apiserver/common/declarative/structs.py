"""The Go structs of API types from the schema data: fields in Go's order, with their declared rules."""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from dra_shared.api.schema import schema_document
from dra_shared.version import Version

_REF = "#/components/schemas/"
_STAGE = re.compile(r"(alpha|beta|standard)\(([\d.]+)\)")
_RULE = re.compile(r"(\w+)(?:\((.*)\))?(?:=(.*))?")


class Stage(enum.Enum):
    """The stage of a rule.

    Upstream returns errors of standard and beta rules. Alpha rules are only compared with hand-written code.
    """

    STANDARD = ""
    BETA = "beta"
    ALPHA = "alpha"


_STAGES = {"alpha": Stage.ALPHA, "beta": Stage.BETA, "standard": Stage.STANDARD}


class Shape(enum.Enum):
    """The kind of Go value in a field. The enumeration's value is the Go zero value."""

    TEXT = "text"
    NUMBER = "number"
    BOOL = "bool"
    LIST = "list"
    MAP = "map"
    STRUCT = "struct"
    OTHER = "other"


_SCALARS = {"string": Shape.TEXT, "integer": Shape.NUMBER, "boolean": Shape.BOOL}
# The allowed values of string types that OpenAPI does not describe as enumerations.
_ENUMS: dict[str, tuple[str, ...]] = {"v1.ConditionStatus": ("False", "True", "Unknown")}
_ZEROS: dict[Shape, Any] = {
    Shape.TEXT: "",
    Shape.NUMBER: 0,
    Shape.BOOL: False,
    Shape.LIST: [],
    Shape.MAP: {},
    Shape.STRUCT: {},
    Shape.OTHER: None,
}


@dataclass(frozen=True)
class Rule:
    """One tag: ``name(argument)=value``, or a name with an `inner` rule that it applies to a part."""

    name: str
    stages: tuple[tuple[Version, Stage], ...] = ()
    argument: str = ""
    value: str = ""
    inner: Rule | None = None

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Parse a rule like ``alpha(1.36) beta(1.37): eachKey: format=k8s-short-name``.

        The words before the rule state its stage from a version on. Without them, the rule is standard in all
        versions.

        Raises:
            ValueError: it is not a rule.
        """
        first, _, rest = text.partition(": ")
        found = [_STAGE.fullmatch(word) for word in first.split()]
        if not all(found):
            return cls._parse(text, ())
        stages = [(Version(*map(int, one[2].split("."))), _STAGES[one[1]]) for one in found if one]
        return cls._parse(rest, tuple(stages))

    def stage_in(self, kubernetes: Version) -> Stage | None:
        """Return the stage of the rule in a version, or None if that version does not have it."""
        if not self.stages:
            return Stage.STANDARD
        return next((stage for since, stage in reversed(self.stages) if since <= kubernetes), None)

    @classmethod
    def _parse(cls, text: str, stages: tuple[tuple[Version, Stage], ...]) -> Rule:
        own, _, rest = text.partition(": ")
        found = _RULE.fullmatch(own)
        if found is None:
            raise ValueError(f"not a validation rule: {text!r}")
        name, argument, value = found.groups(default="")
        return cls(name, stages, argument, value, cls._parse(rest, stages) if rest else None)


@dataclass(frozen=True)
class Field:
    """A field of a struct. `inner` names the struct of the field, its items or its values.

    A `defaulted` field never has its zero value.
    """

    name: str
    shape: Shape
    pointer: bool = False
    omit_empty: bool = False
    defaulted: bool = False
    inner: str = ""
    values: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()

    @property
    def zero(self) -> Any:
        """The value of an absent field: None for a pointer, else the zero value."""
        return None if self.pointer else _ZEROS[self.shape]

    def get(self, struct: Mapping[str, Any]) -> Any:
        """Return the field's value, or its zero value if it is absent."""
        value = struct.get(self.name)
        return self.zero if value is None else value

    def has(self, value: Any) -> bool:
        """True if `value` is not the field's zero value, so that the field is set."""
        return value is not None if self.pointer else bool(value)


@functools.cache
def _package(name: str) -> dict[str, Any]:
    document = schema_document(name)
    loaded: dict[str, Any] = orjson.loads(document) if document is not None else {}
    return loaded


def _schema(name: str) -> dict[str, Any]:
    package, _, short = name.rpartition(".")
    found: dict[str, Any] = _package(package).get(short, {})
    return found


@functools.cache
def fields(name: str) -> tuple[Field, ...]:
    """Return the fields of the struct ``name``, such as ``io.k8s.api.resource.v1.Device``; none if it is not a
    struct.

    Fields without an order in the schema data come last.
    """
    schema = _schema(name)
    properties = schema.get("properties", {})
    ordered = dict.fromkeys([*schema.get("x-order", ()), *properties])
    return tuple(_field(one, properties[one]) for one in ordered)


def _field(name: str, spec: Mapping[str, Any]) -> Field:
    go_type, flags = spec["x-go"]
    content: Mapping[str, Any] = spec
    shape = _SCALARS.get(spec.get("type", ""), Shape.OTHER)
    if spec.get("type") == "array":
        shape, content = Shape.LIST, spec["items"]
    elif "additionalProperties" in spec:
        shape, content = Shape.MAP, spec["additionalProperties"]
    inner = _reference(content)
    if inner and content is spec:
        shape = Shape.STRUCT
    return Field(
        name,
        shape,
        pointer="*" in flags,
        omit_empty="e" in flags,
        defaulted=bool(spec.get("default")),
        inner=inner,
        values=tuple(spec["enum"] if "enum" in spec else _ENUMS.get(go_type, ())),
        rules=tuple(Rule.parse(rule) for rule in spec.get("x-rules", ())),
    )


def _reference(spec: Mapping[str, Any]) -> str:
    """Return the struct that a schema refers to; empty if the schema is not of a struct."""
    target: Mapping[str, Any] = spec["allOf"][0] if "allOf" in spec else spec
    name = str(target.get("$ref", "")).removeprefix(_REF)
    return name if _schema(name).get("properties") else ""


def encode(value: Any, struct: str) -> Any:
    """Return `value` with its fields in Go's order, as encoding/json encodes the struct of that name."""
    if not struct or not isinstance(value, dict):
        return value
    shown = {}
    for field in fields(struct):
        one = field.get(value)
        if field.has(one):
            shown[field.name] = _encoded_field(one, field)
        elif not field.omit_empty:
            shown[field.name] = None if field.shape in (Shape.LIST, Shape.MAP, Shape.OTHER) else one
    return shown


def _encoded_field(value: Any, field: Field) -> Any:
    if field.shape is Shape.LIST:
        return [encode(item, field.inner) for item in value]
    if field.shape is Shape.MAP:
        return {key: encode(value[key], field.inner) for key in sorted(value)}
    return encode(value, field.inner)
