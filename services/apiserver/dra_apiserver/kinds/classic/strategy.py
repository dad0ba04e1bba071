"""Validate classic objects (`pkg/apis/resource/validation` and `pkg/registry/resource` of Kubernetes 1.30)."""

from __future__ import annotations

from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_subdomain

from dra_apiserver.errors import FieldError, invalid, missing_field, not_supported, too_many
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.custom.strategy import CustomStrategy
from dra_apiserver.schema import equal_fields, object_type

_IMMUTABLE = "field is immutable"
_MODES = ("Immediate", "WaitForFirstConsumer")
_LONGEST_DRIVER = 63
_MOST_NODES = 128


class ClassicStrategy(CustomStrategy):
    """The strategy of a classic kind, similar to a custom resource: the schema defines the fields."""

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and schema, then the kind's own rules."""
        return super().validate_create(obj, ctx) + self.check(obj)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and schema, then the kind's own rules."""
        errors = super().validate_update(obj, old, ctx)
        return errors if ctx.subresource else errors + self.check(obj) + self.check_change(obj, old, ctx)

    def check(self, obj: JsonObject) -> list[FieldError]:
        """Return the errors of an object."""
        return []

    def check_change(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Return the errors of a change."""
        return []


class ResourceClassStrategy(ClassicStrategy):
    """The strategy of ResourceClasses: a driver and references."""

    def check(self, obj: JsonObject) -> list[FieldError]:
        nested = isinstance(obj.get("spec"), dict)
        content, path = (obj["spec"], "spec.") if nested else (obj, "")
        errors = _check_driver(content.get("driverName") or "", f"{path}driverName")
        for name in ("parametersRef", "defaultClaimParametersRef"):
            errors += _check_reference(content.get(name), f"{path}{name}")
        return errors


class ResourceClaimStrategy(ClassicStrategy):
    """The strategy of claims, whose spec is immutable."""

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Default the allocation mode: a claim waits for its first pod."""
        super().prepare_for_create(obj, ctx)
        _default_mode(obj.get("spec"))

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Default the allocation mode again, because the update may omit it."""
        super().prepare_for_update(obj, old, ctx)
        _default_mode(obj.get("spec"))

    def check(self, obj: JsonObject) -> list[FieldError]:
        return _check_claim(obj.get("spec") or {}, "spec")

    def check_change(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        return _check_same(obj, old, ctx)


class ResourceClaimTemplateStrategy(ClassicStrategy):
    """The strategy of claim templates, whose spec is immutable."""

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Default the allocation mode of its claims."""
        super().prepare_for_create(obj, ctx)
        _default_mode((obj.get("spec") or {}).get("spec"))

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Default the allocation mode of its claims again."""
        super().prepare_for_update(obj, old, ctx)
        _default_mode((obj.get("spec") or {}).get("spec"))

    def check(self, obj: JsonObject) -> list[FieldError]:
        return _check_claim((obj.get("spec") or {}).get("spec") or {}, "spec.spec")

    def check_change(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        return _check_same(obj, old, ctx)


class PodSchedulingContextStrategy(ClassicStrategy):
    """The strategy of pods' scheduling contexts."""

    def check(self, obj: JsonObject) -> list[FieldError]:
        nodes = (obj.get("spec") or {}).get("potentialNodes") or ()
        if len(nodes) > _MOST_NODES:
            return [too_many("spec.potentialNodes", len(nodes), _MOST_NODES)]
        return []


def _default_mode(spec: Any) -> None:
    if isinstance(spec, dict) and "resourceClassName" in spec:
        spec.setdefault("allocationMode", "WaitForFirstConsumer")


def _check_same(obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
    spec = obj.get("spec") or {}
    field = object_type(ctx.kind, ctx.kind.storage_version).all_fields["spec"]
    return [] if equal_fields(field, spec, old.get("spec")) else [invalid("spec", spec, _IMMUTABLE)]


def _check_claim(spec: JsonObject, path: str) -> list[FieldError]:
    if "devices" in spec and "resourceClassName" not in spec:
        return []
    name = spec.get("resourceClassName") or ""
    errors = [invalid(f"{path}.resourceClassName", name, detail) for detail in dns_subdomain(name)]
    errors += _check_reference(spec.get("parametersRef"), f"{path}.parametersRef")
    mode = spec.get("allocationMode") or ""
    if mode not in _MODES:
        errors.append(not_supported(f"{path}.allocationMode", mode, _MODES))
    return errors


def _check_driver(name: str, path: str) -> list[FieldError]:
    if not name:
        return [missing_field(path)]
    if len(name) > _LONGEST_DRIVER:
        return [invalid(path, name, f"must be no more than {_LONGEST_DRIVER} characters")]
    return [invalid(path, name, detail) for detail in dns_subdomain(name.lower())]


def _check_reference(reference: Any, path: str) -> list[FieldError]:
    if not isinstance(reference, dict):
        return []
    return [missing_field(f"{path}.{name}") for name in ("kind", "name") if not reference.get(name)]
