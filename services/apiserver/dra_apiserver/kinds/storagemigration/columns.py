"""Columns of storage version migrations (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.objectcells import name, part


def storage_migration(obj: JsonObject, now: datetime) -> list[Any]:
    resource = part(part(obj, "spec"), "resource")
    texts = [resource.get("resource", ""), resource.get("version", ""), resource.get("group", "")]
    return [name(obj), ".".join(text for text in texts if text)]
