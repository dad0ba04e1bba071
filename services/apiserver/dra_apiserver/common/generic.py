"""The generic strategy, which kinds without special behaviour use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.gates import GatedFields, drop_disabled, set_gated_defaults
from dra_apiserver.common.objectmeta import (
    validate_kube_finalizers,
    validate_metadata,
    validate_metadata_update,
)
from dra_apiserver.equality import differs
from dra_apiserver.errors import FieldError
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.schema import equal, object_type

# Limits in characters: the length to which a long warning is shortened, and twice the limit for all Warning
# headers.
_CUT, _HELD = 256, 8192


def _kube_finalizers(obj: JsonObject, ctx: Context) -> list[FieldError]:
    return validate_kube_finalizers(obj["metadata"]) if ctx.kind.validation.core_metadata else []


def _changes(obj: JsonObject, old: JsonObject, ctx: Context) -> bool:
    """True if more than metadata and status differ.

    Custom resources have no Go types, so an empty list differs from an absent one.
    """
    new, before = _payload(obj), _payload(old)
    if ctx.kind.unstructured:
        return differs(new, before)
    return not equal(object_type(ctx.kind, ctx.kind.storage_version), new, before)


def _payload(obj: JsonObject) -> JsonObject:
    return {
        key: value for key, value in obj.items() if key not in {"metadata", "status", "apiVersion", "kind"}
    }


class GenericStrategy:
    """The generic strategy.

    The status only changes through its subresource, and the generation counts changes of other fields. Disabled
    `gated` fields that were not in use are dropped. `gated_defaults` are set if their gate is enabled.
    """

    gated: tuple[GatedFields, ...] = ()
    gated_defaults: Mapping[str, Callable[[JsonObject], None]] = MappingProxyType({})

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Remove the status of a new object if the kind has a status subresource, unless the kind keeps it."""
        if ctx.kind.has_status and "status" in obj and not ctx.kind.writes.keeps_status_on_create:
            obj["status"] = {}
        if ctx.kind.writes.counts_generation:
            obj["metadata"]["generation"] = 1
        drop_disabled(self.gated, obj, None, ctx.features)
        set_gated_defaults(self.gated_defaults, obj, None, ctx.features)

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata."""
        if ctx.metadata_good:
            return _kube_finalizers(obj, ctx)
        errors = validate_metadata(obj["metadata"], ctx.kind.namespaced, ctx.kind.validation.name_rule)
        return errors + _kube_finalizers(obj, ctx)

    def warnings_on_create(self, obj: JsonObject, ctx: Context) -> list[str]:
        """Return warnings about valid fields that will not have the effect that the user probably intends."""
        return _warnings(obj, None, ctx)

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Keep what this request can't change, and update the generation."""
        if ctx.subresource == "status":
            self._keep_all_but_status(obj, old)
            return
        # Dropped first, so that dropped fields do not count as a change of the generation.
        drop_disabled(self.gated, obj, old, ctx.features)
        set_gated_defaults(self.gated_defaults, obj, old, ctx.features)
        if ctx.kind.has_status:
            if "status" in old:
                obj["status"] = old["status"]
            else:
                obj.pop("status", None)
        if ctx.kind.writes.counts_generation and self.is_new_generation(obj, old, ctx):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def is_new_generation(self, obj: JsonObject, old: JsonObject, ctx: Context) -> bool:
        """True if an update increments the generation."""
        return _changes(obj, old, ctx)

    def _keep_all_but_status(self, obj: JsonObject, old: JsonObject) -> None:
        for key in [key for key in obj if key not in {"metadata", "status", "apiVersion", "kind"}]:
            del obj[key]
        for key, value in old.items():
            if key not in {"metadata", "status", "apiVersion", "kind"}:
                obj[key] = value

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata."""
        if ctx.metadata_good:
            return _kube_finalizers(obj, ctx)
        return validate_metadata_update(obj["metadata"], old["metadata"]) + _kube_finalizers(obj, ctx)

    def warnings_on_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[str]:
        """Return warnings about valid fields that will not have the effect that the user probably intends."""
        return _warnings(obj, old, ctx)


def _warnings(obj: JsonObject, old: JsonObject | None, ctx: Context) -> list[str]:
    warn = ctx.kind.warnings.get(ctx.subresource)
    return [] if warn is None else _limit(warn(obj, old))


def _limit(warnings: Iterable[str]) -> list[str]:
    """Return the first distinct warnings, up to somewhat more than the limit of a response's headers."""
    shown: dict[str, None] = {}
    written = 0
    for text in warnings:
        if text in shown:
            continue
        shown[text] = None
        written += min(len(text), _CUT)
        if written > _HELD:
            break
    return list(shown)
