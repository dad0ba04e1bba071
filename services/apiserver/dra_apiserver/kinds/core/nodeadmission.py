"""Upstream's default admission plugins for new nodes."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.kindkit.strategy import Context

_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def not_ready(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """Taint a new node until the node controller finds it ready (the TaintNodesByCondition plugin)."""
    if operation != "CREATE" or obj is None or ctx.subresource:
        return
    spec = obj.setdefault("spec", {})
    taints = spec.get("taints") or []
    if not any(_NOT_READY.items() <= taint.items() for taint in taints):
        spec["taints"] = [*taints, dict(_NOT_READY)]
