"""The strategy of namespaces (upstream's `pkg/registry/core/namespace`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.errors import FieldError
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.core.namespaces import check_namespace_status

_NAME_LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(GenericStrategy):
    """The strategy of namespaces: active until deleted, and removed when their finalizers are done."""

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Set the phase Active, Kubernetes' own finalizer and the label of the name."""
        obj["status"] = {"phase": "Active"}
        finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")
        self._label(obj)

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Keep the finalizers unless `finalize` is updated, and the phase unless `status` is."""
        if ctx.subresource == "finalize":
            obj["status"] = old.get("status", {})
            return
        finalizers = (old.get("spec") or {}).get("finalizers")
        obj["spec"] = {"finalizers": finalizers} if finalizers else {}
        if ctx.subresource != "status":
            obj["status"] = old.get("status", {})
        self._label(obj)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, and the status if it is updated."""
        errors = super().validate_update(obj, old, ctx)
        return errors + check_namespace_status(obj, old) if ctx.subresource == "status" else errors

    def _label(self, obj: JsonObject) -> None:
        meta = obj["metadata"]
        if meta.get("name"):
            meta["labels"] = {**(meta.get("labels") or {}), _NAME_LABEL: meta["name"]}
