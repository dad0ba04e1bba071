"""Columns of signing requests and trust bundles (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.durations import human_duration
from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.cells import NONE
from dra_apiserver.common.objectcells import age, name, part


def signing_request(obj: JsonObject, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    conditions = {one.get("type") for one in part(obj, "status").get("conditions") or ()}
    states = [kind for kind in ("Denied", "Approved", "Failed") if kind in conditions] or ["Pending"]
    if part(obj, "status").get("certificate"):
        states.append("Issued")
    seconds = spec.get("expirationSeconds")
    duration = NONE if seconds is None else human_duration(seconds)
    signer = spec.get("signerName") or NONE
    return [name(obj), age(obj, now), signer, spec.get("username", ""), duration, ",".join(states)]


def trust_bundle(obj: JsonObject, now: datetime) -> list[Any]:
    return [name(obj), part(obj, "spec").get("signerName") or NONE]
