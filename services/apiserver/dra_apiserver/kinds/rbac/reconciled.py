"""Restore parts of default roles and bindings that users removed, when the server starts.

Mirrors component-helpers' `auth/rbac/reconciliation`, as used by kube-apiserver's post-start hook: nothing is
removed, and objects annotated with `autoupdate: "false"` are unchanged.
"""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.authorization.rules import find_uncovered

_AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"


def reconcile(current: JsonObject, wanted: JsonObject) -> JsonObject | None:
    """Return the stored object with the missing parts of the default; None if it is complete."""
    meta = current["metadata"]
    if (meta.get("annotations") or {}).get(_AUTO_UPDATE) == "false":
        return None
    made = {**current, "metadata": {**meta}}
    for field in ("labels", "annotations"):
        # Values that users have changed are kept.
        made["metadata"][field] = {**(wanted["metadata"].get(field) or {}), **(meta.get(field) or {})}
    if "roleRef" in wanted:
        made["subjects"] = _together(current.get("subjects"), wanted.get("subjects"))
    elif "aggregationRule" in wanted:
        made["aggregationRule"] = current.get("aggregationRule") or wanted["aggregationRule"]
    else:
        owned = current.get("rules") or []
        lacking = find_uncovered(owned, wanted.get("rules") or [])
        made["rules"] = [*owned, *lacking] if lacking else current.get("rules")
    return None if made == current else made


def _together(current: list[JsonObject] | None, wanted: list[JsonObject] | None) -> list[JsonObject] | None:
    lacking = [subject for subject in wanted or () if subject not in (current or ())]
    return [*(current or ()), *lacking] if lacking else current
