"""Build the kind that a CustomResourceDefinition defines."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.quota import QUOTA
from dra_apiserver.errors import GroupResource, forbidden_error
from dra_apiserver.kindkit.behaviour import Admission, Plugin, Validation, Writes
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kindkit.names import selectable_field
from dra_apiserver.kindkit.serving import FieldSelection, Release, ScalePaths, Subresource, TypeSource
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.custom.columns import custom_printer
from dra_apiserver.kinds.custom.conversion import ByName, ByWebhook, Converter
from dra_apiserver.kinds.custom.customdefaults import default_custom
from dra_apiserver.kinds.custom.rules import takes_long
from dra_apiserver.kinds.custom.strategy import CustomStrategy
from dra_apiserver.registry import version_priority
from dra_apiserver.schema import object_type, sanitize
from dra_apiserver.webhook import Calls


def set_definition_defaults(obj: JsonObject, _version: str, _now: str) -> None:
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if kind:
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", kind + "List")
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    conversion = spec["conversion"]
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
    for version in spec.get("versions") or ():
        if version.get("served") is None:
            version["served"] = False
        _drop_nulls((version.get("schema") or {}).get("openAPIV3Schema"))


def _drop_nulls(schema: Any) -> None:
    """Remove members that are null, and replace null properties by empty schemas, as Go decodes them."""
    if not isinstance(schema, dict):
        return
    for name in [name for name, value in schema.items() if value is None]:
        del schema[name]
    for name in _MAPS & schema.keys():
        below = schema[name]
        for key in below if isinstance(below, dict) else ():
            below[key] = {} if below[key] is None else below[key]
            _drop_nulls(below[key])
    for name in _SCHEMAS & schema.keys():
        for one in schema[name] if isinstance(schema[name], list) else [schema[name]]:
            _drop_nulls(one)


_MAPS = frozenset({"properties", "patternProperties", "definitions"})
_SCHEMAS = frozenset({"items", "additionalProperties", "allOf", "anyOf", "oneOf", "not"})
_STRATEGY = CustomStrategy()
_RESET_FIELDS = {"": (("f:status",),), "status": (("f:metadata",), ("f:spec",))}
_PART_VERBS = frozenset({"get", "patch", "update"})
_ANYTHING: Mapping[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def is_established(definition: Mapping[str, Any]) -> bool:
    """True if the kind may be served, because its names are accepted."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


def kind_of_definition(definition: Mapping[str, Any], calls: Calls | None = None) -> Kind | None:
    """Return the kind that a definition defines; None if it serves no version.

    Its conversion webhook is called with `calls`. Without them, versions differ in name only.
    """
    spec = definition["spec"]
    every = spec.get("versions") or []
    served = sorted((one["name"] for one in every if one.get("served")), key=version_priority)
    stored = next((one["name"] for one in every if one.get("storage")), None)
    if not served or stored is None:
        return None
    schemas = {one["name"]: _schema(one) for one in every}
    base = _kind_in(stored, definition, served, schemas)
    if calls is None or len(every) < 2 or (spec.get("conversion") or {}).get("strategy") != "Webhook":
        kept = (definition.get("status") or {}).get("storedVersions") or [stored]
        return base if kept == [stored] else replace(base, persistence=ByName(base.storage_api_version))

    def prune(version: str, obj: JsonObject) -> None:
        sanitize(object_type(base, version), obj)

    converter = Converter(spec, calls, prune)
    return replace(
        _build_converted(base, converter, stored),
        seen={
            version: _build_converted(_kind_in(version, definition, served, schemas), converter, stored)
            for version in served
            if version != stored
        },
    )


def _build_converted(kind: Kind, converter: Converter, stored: str) -> Kind:
    """Return the kind whose requests see one version, like the storage that upstream has for each version."""
    seen = kind.storage_version
    to_seen = partial(converter.convert_in_place, version=seen)
    return replace(
        kind,
        persistence=ByWebhook(converter, seen, stored),
        conversions={
            version: (to_seen, partial(converter.convert_in_place, version=version))
            for version in kind.all_versions
            if version != seen
        },
    )


def _kind_in(
    stored: str,
    definition: Mapping[str, Any],
    served: Sequence[str],
    schemas: Mapping[str, Mapping[str, Any]],
) -> Kind:
    """Return the kind with the subresources and selectable fields of its version `stored`.

    While the definition is being deleted, creates are rejected: upstream's ``forbidCreateAdmission``.
    """
    spec = definition["spec"]
    group, names, every = spec["group"], spec["names"], spec["versions"]
    chosen = next(one for one in every if one["name"] == stored)
    namespaced = spec.get("scope") == "Namespaced"
    scale = (chosen.get("subresources") or {}).get("scale")
    fields = {"metadata.name": selectable_field("metadata.name", "metadata.name")}
    if namespaced:
        fields["metadata.namespace"] = selectable_field("metadata.namespace", "metadata.namespace")
    for one in chosen.get("selectableFields") or ():
        path = one["jsonPath"].removeprefix(".")
        fields[path] = selectable_field(path, path)
    subresources = _subresources(group, stored, names["kind"], chosen)
    return Kind(
        group=group,
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=namespaced,
        versions=tuple(served),
        all_versions=tuple(one["name"] for one in every),
        storage_version=stored,
        storage=(group, names["plural"]),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=subresources,
        field_selection=FieldSelection(fields=fields),
        scale=None if scale is None else _scale(scale),
        deprecated={
            one["name"]: _deprecation(group, one, names["kind"]) for one in every if one.get("deprecated")
        },
        types=TypeSource(schemas=schemas, names_itself=True, strategic_merge=False),
        release=Release(subresources={one["name"]: _own_subresources(one) for one in every}),
        strategies=dict.fromkeys(("", *subresources), _STRATEGY),
        default=partial(_default, schemas),
        validation=Validation(rules_take_long=partial(_rules_take_long, schemas), core_metadata=False),
        printers={one["name"]: custom_printer(one.get("additionalPrinterColumns") or ()) for one in every},
        admission=Admission(mutating=_NO_NEW if _is_going(definition) else (), quota=QUOTA),
        writes=Writes(
            counts_generation=True,
            allow_unconditional_update=False,
            reset_fields=_RESET_FIELDS if "status" in subresources else {},
        ),
    )


def _is_going(definition: Mapping[str, Any]) -> bool:
    # A definition that is built into the server has no metadata.
    return bool((definition.get("metadata") or {}).get("deletionTimestamp"))


def _refuse_new(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    if operation == "CREATE":
        assert obj is not None
        text = "create not allowed while custom resource definition is terminating"
        raise forbidden_error(
            GroupResource(ctx.kind.group, ctx.kind.plural), obj["metadata"].get("name", ""), text
        )


_NO_NEW: Sequence[Plugin] = (("ForbidCreate", _refuse_new),)


def _rules_take_long(schemas: Mapping[str, Mapping[str, Any]], version: str) -> bool:
    return takes_long(schemas[version])


def _default(schemas: Mapping[str, Mapping[str, Any]], obj: JsonObject, version: str, now: str) -> None:
    default_custom(schemas[version], obj)


def _deprecation(group: str, version: Mapping[str, Any], kind: str) -> str:
    return version.get("deprecationWarning") or f"{group}/{version['name']} {kind} is deprecated"


def _subresources(group: str, version: str, kind: str, chosen: Mapping[str, Any]) -> dict[str, Subresource]:
    asked = chosen.get("subresources") or {}
    made = {}
    if asked.get("status") is not None:
        made["status"] = Subresource("status", _PART_VERBS, group, version, kind)
    if asked.get("scale") is not None:
        made["scale"] = Subresource("scale", _PART_VERBS, "autoscaling", "v1", "Scale")
    return made


def _scale(scale: Mapping[str, Any]) -> ScalePaths:
    return ScalePaths(
        scale.get("specReplicasPath", ".spec.replicas").removeprefix("."),
        scale.get("statusReplicasPath", ".status.replicas").removeprefix("."),
        scale.get("labelSelectorPath", "").removeprefix("."),
    )


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    return (version.get("schema") or {}).get("openAPIV3Schema") or _ANYTHING


def _own_subresources(version: Mapping[str, Any]) -> frozenset[str]:
    asked = version.get("subresources") or {}
    return frozenset(name for name in ("status", "scale") if asked.get(name) is not None)


def accepted_status(definition: Mapping[str, Any], others: Iterable[Kind], now: str) -> JsonObject:
    """Return the status that upstream's naming and establishing controllers set.

    ``others`` are the served kinds of its group. A name that one of them has is not accepted.
    """
    spec, status = definition["spec"], dict(definition.get("status") or {})
    names = spec["names"]
    taken = _conflict(names, [one for one in others if one.plural != names["plural"]])
    accepted = _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    ready = _condition(
        "Established", "True", "InitialNamesAccepted", "the initial names have been accepted", now
    )
    if taken is not None:
        reason, message = taken
        accepted = _condition("NamesAccepted", "False", reason, message, now)
        ready = _condition("Established", "False", "NotAccepted", "not all names are accepted", now)
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    for made in (accepted, ready):
        before = conditions.get(made["type"])
        if before is None or any(before.get(key) != made[key] for key in ("status", "reason", "message")):
            conditions[made["type"]] = made
    status["conditions"] = list(conditions.values())
    status["acceptedNames"] = dict(names) if taken is None else status.get("acceptedNames") or _no_names()
    stored = list(status.get("storedVersions") or ())
    current = next((one["name"] for one in spec.get("versions") or () if one.get("storage")), None)
    if current is not None and current not in stored:
        stored.append(current)
    status["storedVersions"] = stored
    return status


def ending_status(definition: Mapping[str, Any], ending: bool, now: str) -> JsonObject:
    """Return the status that upstream's finalizer sets while the objects are being deleted (`ending`), or
    after that.
    """
    made = _condition("Terminating", "False", "InstanceDeletionCompleted", "removed all instances", now)
    if ending:
        text = "CustomResource deletion is in progress"
        made = _condition("Terminating", "True", "InstanceDeletionInProgress", text, now)
    elif not is_established(definition):
        made = _condition("Terminating", "False", "NeverEstablished", "resource was never established", now)
    status = dict(definition.get("status") or {})
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    before = conditions.get("Terminating")
    if before is not None and before.get("status") == made["status"]:
        made["lastTransitionTime"] = before["lastTransitionTime"]
    conditions["Terminating"] = made
    status["conditions"] = list(conditions.values())
    return status


def _no_names() -> JsonObject:
    return {"plural": "", "kind": ""}


def _conflict(names: Mapping[str, Any], others: list[Kind]) -> tuple[str, str] | None:
    resources = {name for one in others for name in (one.plural, one.singular, *one.short_names)}
    for field, reason in (("plural", "PluralConflict"), ("singular", "SingularConflict")):
        if names.get(field) in resources:
            return reason, f'"{names[field]}" is already in use'
    for name in names.get("shortNames") or ():
        if name in resources:
            return "ShortNamesConflict", f'"{name}" is already in use'
    kinds = {name for one in others for name in (one.kind, one.list_kind)}
    for field, reason in (("kind", "KindConflict"), ("listKind", "ListKindConflict")):
        if names.get(field) in kinds:
            return reason, f'"{names[field]}" is already in use'
    return None


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> JsonObject:
    return {"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message}
