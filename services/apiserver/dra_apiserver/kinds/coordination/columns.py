"""Columns of leases (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.objectcells import age, name, part


def lease(obj: JsonObject, now: datetime) -> list[Any]:
    return [name(obj), part(obj, "spec").get("holderIdentity", ""), age(obj, now)]


def lease_candidate(obj: JsonObject, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    texts = [spec.get(key, "") for key in ("leaseName", "binaryVersion", "emulationVersion")]
    return [name(obj), *texts, age(obj, now)]
