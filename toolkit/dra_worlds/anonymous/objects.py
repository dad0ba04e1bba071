"""Walk objects by their types, twice: new names can only be chosen when all old names are known."""

import functools
import re
import typing
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import orjson
from dra_shared.api.codec import encode
from dra_shared.api.core import PersistentVolumeClaim
from dra_shared.api.meta import Object, ObjectMeta
from dra_shared.api.resource import DeviceAttribute
from dra_shared.api.resources import Resource
from dra_shared.jsontypes import JsonObject
from dra_shared.quota import IMPLICIT_PREFIX

from dra_worlds.anonymous.expressions import drivers_of, rewrite, texts_of
from dra_worlds.anonymous.fields import (
    AMOUNT_MAPS,
    ANNOTATIONS,
    KEPT_TEXTS,
    MAP_KEYS,
    NOUNS,
    RULES,
    WORDS,
    Rule,
    has_known_values,
    is_known_label,
    is_model,
    is_public_resource,
)
from dra_worlds.anonymous.names import Names

Typed = tuple[Resource[Any], Object]

_AMOUNT = re.compile(r"[+-]?[\d.]+(?:[eE][+-]?\d+|[numkKMGTPE]i?|%)?|\d+(?:[-,]\d+)*")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)")
_VERSION = re.compile(r"v?\d+(?:\.\d+){0,2}(?:-(?:alpha|beta|rc)(?:\.?\d+)?)?")
_ANY_ADDRESS = frozenset({"0.0.0.0", "::", "127.0.0.1", "::1"})


def anonymize(objects: Iterable[Typed]) -> Iterator[JsonObject]:
    """Yield the renamed objects. They are kept as texts until the names of all are known."""
    walker, kept = _Walker(), []
    for resource, obj in objects:
        text = encode(resource, obj)
        walker.rename(resource, text)
        kept.append((resource, text))
    walker.choose()
    return (walker.rename(resource, text) for resource, text in kept)


class _Field(NamedTuple):
    """A field of a struct: its JSON name, its rule, the noun of its new names, and the type of its content."""

    name: str
    owner: str
    rule: Rule | None
    noun: str
    struct: type[msgspec.Struct] | None
    values: Any


@functools.cache
def _fields(struct: type[msgspec.Struct]) -> tuple[_Field, ...]:
    found = []
    for field in msgspec.structs.fields(struct):
        name, owner = field.encode_name, struct.__name__
        inner, values = _content(field.type)
        keys = (f"{owner}.{name}", name)
        rule = next((RULES[key] for key in keys if key in RULES), None)
        noun = next((NOUNS[key] for key in keys if key in NOUNS), "")
        found.append(_Field(name, owner, rule, noun or name.removesuffix("Name"), inner, values))
    return tuple(found)


def _content(type_: Any) -> tuple[type[msgspec.Struct] | None, Any]:
    """Return the struct that a field holds, alone or in a list, or else the type of its map's values."""
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return type_, None
    arguments = [one for one in typing.get_args(type_) if one not in (type(None), Ellipsis)]
    if typing.get_origin(type_) is dict:
        return None, arguments[1]
    found = [_content(one) for one in arguments]
    return next((one for one in found if one != (None, None)), (None, None))


class _Walker:
    """Notes texts in the first pass, and replaces them in the second one."""

    def __init__(self) -> None:
        self._names = Names()
        self._chosen = False
        # In this order: texts of expressions and attributes that are not renamed, values of attributes, and labels
        # that are compared as numbers.
        self._kept: set[str] = set()
        self._attributes: set[str] = set()
        self._ordered: set[str] = set()
        self._derived: set[str] = set()
        # The new names of texts that expressions can see.
        self._visible: dict[str, str] = {}
        self._expressions: dict[str, str] = {}

    def choose(self) -> None:
        """Begin the second pass."""
        self._names.choose()
        self._chosen = True
        self._visible = {text: self._attribute_text(text) for text in self._attributes | self._kept}

    def rename(self, resource: Resource[Any], text: bytes) -> JsonObject:
        """Return the renamed object. In the first pass, which only collects names, the result is not used."""
        made: JsonObject = self._struct(resource.type, orjson.loads(text), resource.kind)
        return {"apiVersion": resource.api_version, "kind": resource.kind, **made}

    def _new(self, text: str, noun: str) -> str:
        """Return the new name of a text."""
        if KEPT_TEXTS.fullmatch(text):
            return text
        if not self._chosen:
            self._names.note(text, noun)
        return self._names.get(text, noun)

    def _struct(self, struct: type[msgspec.Struct], value: JsonObject, kind: str) -> JsonObject:
        if struct is DeviceAttribute:
            raise TypeError("attributes need their name")
        if struct is ObjectMeta:
            return self._metadata(value, kind)
        made: JsonObject = {}
        for field in _fields(struct):
            if field.name in value and not _is_identity(struct, field):
                part = self._field(field, value[field.name], value, kind)
                if part is not None:
                    made[field.name] = part
        return made

    def _field(self, field: _Field, value: Any, owner: JsonObject, kind: str) -> Any:
        """Return a field's new value, or None if the field is left out."""
        if field.rule is Rule.DROP or value is None:
            return None
        if field.name == "volumes":
            return self._volumes(value)
        if field.name in ("opaque", "disruptionMode"):
            return _opaque(value) if field.name == "opaque" else _disruption_mode(value)
        if field.name in ("value", "values") and "key" in owner:
            return self._label_value(str(owner["key"]), value, owner)
        if field.struct is not None:
            inner = functools.partial(self._struct, field.struct, kind=kind)
            return [inner(one) for one in value] if isinstance(value, list) else inner(value)
        if isinstance(value, dict):
            return self._map(field, value) if field.values is not None else None
        # If a reference has a built-in kind, its new name has the prefix of that kind, such as pod-1. The name of a
        # reference to another kind has the prefix of the field.
        noun = str(owner["kind"]) if field.name == "name" and owner.get("kind") in _KINDS else field.noun
        if isinstance(value, list):
            found = (self._text(field.rule, one, noun) for one in value)
            return [one for one in found if one is not None]
        return self._text(field.rule, value, noun)

    def _text(self, rule: Rule | None, value: Any, noun: str) -> Any:
        """Return the new value of a text by its rule; numbers and booleans stay."""
        if not isinstance(value, str) or not value:
            return value
        match rule:
            case Rule.KEEP:
                self._kept.add(value)
                return value
            case Rule.WORD | Rule.LISTED_WORD if value in WORDS:
                return value
            case Rule.LISTED_WORD:
                return None
            case Rule.AMOUNT if _AMOUNT.fullmatch(value):
                return value
            case Rule.TIME:
                return value if _TIME.fullmatch(value) else None
            case Rule.ADDRESS if value in _ANY_ADDRESS:
                return value
        return self._special(rule, value, noun)

    def _special(self, rule: Rule | None, value: str, noun: str) -> str:
        """Return the replacement for a text whose rule requires a certain form, such as a version or an image."""
        match rule:
            case Rule.VERSION:
                core = _VERSION.match(value)
                return core[0] if core else self._new(value, "text")
            case Rule.UID:
                return self._new(value, "uid")
            case Rule.ADDRESS:
                return self._new(value, "address")
            case Rule.LABEL_KEY:
                return self._label_key(value)
            case Rule.RESOURCE:
                return self._resource(value)
            case Rule.IMAGE:
                tagged = value.rfind(":") > value.rfind("/")
                return self._new(value if tagged else f"{value}:latest", "image")
            case Rule.ATTRIBUTE:
                return self._attribute_name(value, noun)
            case Rule.EXPRESSION:
                return self._expression(value)
            case Rule.GROUP:
                return self._group(value)
            case Rule.KIND:
                return value if value in _KINDS else self._new(value, "kind")
            case Rule.PREFIX:
                return f"{self._new(value, noun)}-"
        return self._new(value, noun or "text")

    def _metadata(self, meta: JsonObject, kind: str) -> JsonObject:
        made: JsonObject = {}
        for field in _fields(ObjectMeta):
            if field.name not in meta:
                continue
            value = meta[field.name]
            if field.name == "name":
                made["name"] = self._object_name(value, kind)
            elif field.name == "generateName":
                made[field.name] = self._text(Rule.PREFIX, value, kind)
            elif field.name == "annotations":
                made[field.name] = {
                    key: self._text(ANNOTATIONS[key], text, "value")
                    for key, text in value.items()
                    if key in ANNOTATIONS
                }
            else:
                made[field.name] = self._field(field, value, {}, kind)
        return {name: value for name, value in made.items() if value not in (None, {}, [])}

    def _object_name(self, name: str, kind: str) -> str:
        if kind == "CSIDriver":
            self._kept.add(name)
            return name
        return self._new(name, kind)

    def _map(self, field: _Field, value: JsonObject) -> JsonObject | None:
        """Return a map with new keys, or None if its keys have no rule."""
        keys = (f"{field.owner}.{field.name}", field.name)
        known = next((key for key in keys if key in MAP_KEYS), None)
        if known is None:
            return None
        rule = MAP_KEYS[known]
        made: JsonObject = {}
        for key, part in value.items():
            new = self._new(key, field.noun) if rule is None else self._map_key(rule, key)
            made[new] = self._map_value(field, key, part)
        return made

    def _map_key(self, rule: Rule, key: str) -> str:
        return key if rule is Rule.KEEP else self._special(rule, key, "")

    def _map_value(self, field: _Field, key: str, value: Any) -> Any:
        if field.values is DeviceAttribute:
            return self._attribute(key, value)
        if isinstance(value, dict):
            return self._struct(field.values, value, "")
        if field.name in AMOUNT_MAPS:
            return self._text(Rule.AMOUNT, value, "amount")
        if field.name == "disruptedPods":
            return self._text(Rule.TIME, value, "")
        return self._label_value(key, value, {})

    def _attribute(self, name: str, value: JsonObject) -> JsonObject:
        """Return an attribute with new texts, unless they describe the type of the device."""
        texts = [value.get("string"), *(value.get("strings") or ())]
        known = {text for text in texts if isinstance(text, str)}
        self._attributes |= known
        if is_model(name):
            self._kept |= known
        made = dict(value)
        if "string" in made:
            made["string"] = self._attribute_text(made["string"])
        if "strings" in made:
            made["strings"] = [self._attribute_text(text) for text in made["strings"]]
        if "version" in made:
            made["version"] = self._text(Rule.VERSION, made["version"], "")
        if "versions" in made:
            made["versions"] = [self._text(Rule.VERSION, text, "") for text in made["versions"]]
        return made

    def _attribute_text(self, text: str) -> str:
        """Return the new value of a text that expressions can read and compare with other texts."""
        return text if text in self._kept else self._new(text, "id")

    def _attribute_name(self, name: str, noun: str) -> str:
        """Return the name of an attribute.

        Names of drivers' attributes stay; names that a claim derives are replaced.
        """
        if noun == "name":
            self._derived.add(name)
        return self._new(name, "attribute") if name in self._derived else name

    def _expression(self, expression: str) -> str:
        if not self._chosen:
            self._kept.update(drivers_of(expression))
            for text in texts_of(expression):
                self._new(text, "text")
            return expression
        if expression not in self._expressions:
            self._expressions[expression] = rewrite(expression, self._attribute_text, self._visible)
        return self._expressions[expression]

    def _group(self, value: str) -> str:
        """Return an API group, with or without a version. Groups of the user's own kinds are replaced."""
        group, slash, version = value.rpartition("/") if "/" in value else (value, "", "")
        if group in _GROUPS or value == "v1":
            return value
        known = _API_VERSION.fullmatch(version)
        return f"{self._new(group, 'group')}{slash}{version if known or not slash else 'v1'}"

    def _label_key(self, key: str) -> str:
        return key if is_known_label(key) else self._new(key, "label")

    def _label_value(self, key: str, value: Any, owner: JsonObject) -> Any:
        if isinstance(value, list):
            return [self._label_value(key, one, owner) for one in value]
        if owner.get("operator") in ("Gt", "Lt"):
            self._ordered.add(key)
        is_number = isinstance(value, str) and re.fullmatch(r"-?\d+", value)
        if has_known_values(key) or (key in self._ordered and is_number):
            return value
        return self._text(None, value, "value")

    def _resource(self, name: str) -> str:
        """Return the name of a resource, which may contain the name of a class."""
        if name.startswith(IMPLICIT_PREFIX):
            return f"{IMPLICIT_PREFIX}{self._new(name.removeprefix(IMPLICIT_PREFIX), 'deviceclass')}"
        if name.startswith("requests."):
            return f"requests.{self._resource(name.removeprefix('requests.'))}"
        for noun, suffix in _CLASS_SUFFIXES:
            class_name, found, rest = name.partition(suffix)
            if found:
                return f"{self._new(class_name, noun)}{suffix}{rest if rest in _CLASS_AMOUNTS else 'devices'}"
        return name if is_public_resource(name) else self._new(name, "resource")

    def _volumes(self, volumes: list[JsonObject]) -> list[JsonObject]:
        """Return the volumes that decisions depend on: claims, and those of CSI drivers."""
        made = []
        for volume in volumes:
            name = self._new(str(volume.get("name", "")), "volume")
            if claim := volume.get("persistentVolumeClaim"):
                claim_name = self._new(str(claim.get("claimName", "")), "persistentvolumeclaim")
                source = {**_only(claim, "readOnly"), "claimName": claim_name}
                made.append({"name": name, "persistentVolumeClaim": source})
            elif isinstance(template := (volume.get("ephemeral") or {}).get("volumeClaimTemplate"), dict):
                inner = self._struct(PersistentVolumeClaim, template, "PersistentVolumeClaim")
                made.append({"name": name, "ephemeral": {"volumeClaimTemplate": inner}})
            elif driver := (volume.get("csi") or {}).get("driver"):
                self._kept.add(driver)
                made.append({"name": name, "csi": {"driver": driver}})
        return made


_CLASS_SUFFIXES = (
    ("deviceclass", ".deviceclass.resource.k8s.io/"),
    ("storageclass", ".storageclass.storage.k8s.io/"),
)
_CLASS_AMOUNTS = frozenset({"devices", "persistentvolumeclaims", "requests.storage"})
_API_VERSION = re.compile(r"v\d+(?:(?:alpha|beta)\d+)?")
_GROUPS = frozenset(("apps", "batch", "policy", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io"))
_KIND_NAMES = """
    CompositePodGroup ConfigMap CronJob CSIDriver CSINode CSIStorageCapacity DaemonSet Deployment DeviceClass
    DeviceTaintRule Job Namespace Node PersistentVolume PersistentVolumeClaim Pod PodDisruptionBudget PodGroup
    PriorityClass ReplicaSet ReplicationController ResourceClaim ResourceClaimTemplate ResourceSlice Service
    ServiceAccount StatefulSet StorageClass VolumeAttachment Workload
    """
_KINDS = frozenset(_KIND_NAMES.split())


def _is_identity(struct: type[msgspec.Struct], field: _Field) -> bool:
    """True for the apiVersion and kind of a whole object, which are given by its resource."""
    return issubclass(struct, Object) and field.name in ("apiVersion", "kind")


def _opaque(value: JsonObject) -> JsonObject:
    """Return opaque parameters without their content."""
    return {"driver": value.get("driver", ""), "parameters": {}}


def _disruption_mode(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: {} for key in value if key in ("all", "single")}
    return value if value in WORDS else None


def _only(value: JsonObject, *names: str) -> JsonObject:
    return {name: value[name] for name in names if name in value}
