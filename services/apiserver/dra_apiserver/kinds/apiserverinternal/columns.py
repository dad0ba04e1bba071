"""Columns of storage versions (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.cells import (
    UNSET,
)
from dra_apiserver.common.objectcells import age, name, part


def storage_version(obj: JsonObject, now: datetime) -> list[Any]:
    status = part(obj, "status")
    common = status.get("commonEncodingVersion") or UNSET
    every = ",".join(
        f"{one.get('apiServerID', '')}={one.get('encodingVersion', '')}"
        for one in status.get("storageVersions") or ()
    )
    return [name(obj), common, every or UNSET, age(obj, now)]
