"""Columns of role bindings (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.objectcells import age, name, part


def role_binding(obj: JsonObject, now: datetime) -> list[Any]:
    role = part(obj, "roleRef")
    subjects = obj.get("subjects") or ()
    users = ", ".join(one.get("name", "") for one in subjects if one.get("kind") == "User")
    groups = ", ".join(one.get("name", "") for one in subjects if one.get("kind") == "Group")
    accounts = ", ".join(
        f"{one.get('namespace', '')}/{one.get('name', '')}"
        for one in subjects
        if one.get("kind") == "ServiceAccount"
    )
    return [
        name(obj),
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age(obj, now),
        users,
        groups,
        accounts,
    ]
