"""Default roles and bindings that users took something from: it is given back when the server starts.

Mirrors component-helpers' `auth/rbac/reconciliation`, as kube-apiserver's post-start hook uses it: nothing is taken
away, and what is annotated `autoupdate: "false"` is left alone.
"""

from __future__ import annotations

from typing import Any

from dra_apiserver.authorization.rules import missing

Object = dict[str, Any]

_AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"


def reconciled(current: Object, wanted: Object) -> Object | None:
    """The stored object with what it lacks of the default; None where it lacks nothing."""
    meta = current["metadata"]
    if (meta.get("annotations") or {}).get(_AUTO_UPDATE) == "false":
        return None
    made = {**current, "metadata": {**meta}}
    for field in ("labels", "annotations"):
        # Those that users have changed stay so.
        made["metadata"][field] = {**(wanted["metadata"].get(field) or {}), **(meta.get(field) or {})}
    if "roleRef" in wanted:
        made["subjects"] = _together(current.get("subjects"), wanted.get("subjects"))
    elif "aggregationRule" in wanted:
        made["aggregationRule"] = current.get("aggregationRule") or wanted["aggregationRule"]
    else:
        owned = current.get("rules") or []
        lacking = missing(owned, wanted.get("rules") or [])
        made["rules"] = [*owned, *lacking] if lacking else current.get("rules")
    return None if made == current else made


def _together(current: list[Object] | None, wanted: list[Object] | None) -> list[Object] | None:
    lacking = [subject for subject in wanted or () if subject not in (current or ())]
    return [*(current or ()), *lacking] if lacking else current
