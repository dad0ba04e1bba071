"""The strategies of eviction requests and evictions (`pkg/registry/lifecycle`)."""

from __future__ import annotations

import functools

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.conditions import check_conditions
from dra_apiserver.common.declarative.rules import ENFORCED, DeclaredRules, replace_covered
from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.common.names import reserved_domain
from dra_apiserver.common.objectmeta import reset_for_status
from dra_apiserver.errors import FieldError
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.lifecycle.evictionstatus import check_eviction_status

_PACKAGE = "io.k8s.api.lifecycle"


@functools.lru_cache(maxsize=64)
def _rules(type_name: str, gates: FeatureGates) -> DeclaredRules:
    return DeclaredRules(f"{_PACKAGE}.{type_name}", ENFORCED, gates)


class EvictionRequestStrategy(GenericStrategy):
    """The strategy of eviction requests. Of the spec, only the intent may change."""

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Keep the status; a status update keeps everything else."""
        super().prepare_for_update(obj, old, ctx)
        if ctx.subresource == "status":
            reset_for_status(obj["metadata"], old["metadata"])

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, then the declared rules."""
        return self._add_declared(super().validate_create(obj, ctx), obj, None, ctx)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, the new status if that is updated, then the declared rules."""
        errors = super().validate_update(obj, old, ctx)
        if ctx.subresource == "status":
            errors += self.check_status(obj, old, ctx)
        return self._add_declared(errors, obj, old, ctx)

    def check_status(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate the parts of a status that the declared rules do not cover."""
        return check_conditions(
            (obj.get("status") or {}).get("conditions"), "status.conditions", ctx.features.version
        )

    def _add_declared(
        self, errors: list[FieldError], obj: JsonObject, old: JsonObject | None, ctx: Context
    ) -> list[FieldError]:
        rules = _rules(f"{ctx.version}.{ctx.kind.kind}", ctx.features)
        found = [*rules.validate(obj, old), *_check_requester(obj, old)]
        return replace_covered(errors, found)


class EvictionStrategy(EvictionRequestStrategy):
    """The strategy of evictions. Responders take turns and report their progress in the status."""

    def check_status(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate the conditions and the responders' progress."""
        status, before = obj.get("status") or {}, old.get("status") or {}
        return super().check_status(obj, old, ctx) + check_eviction_status(status, before, ctx.now)


def _check_requester(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Check that a new requester is of no domain of Kubernetes."""
    requester = (obj.get("spec") or {}).get("requester")
    if not requester or old is not None:
        return []
    return reserved_domain(requester, "spec.requester")
