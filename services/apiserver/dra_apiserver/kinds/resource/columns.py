"""Columns of the kinds of resource.k8s.io (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.durations import since
from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.cells import NONE
from dra_apiserver.common.objectcells import age, name, part


def device_claim(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of a ResourceClaim: pending, allocated, reserved, deleted."""
    status = part(obj, "status")
    deleted = bool(part(obj, "metadata").get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if status.get("allocation") is None:
        states += [] if deleted else ["pending"]
    else:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    return [name(obj), ",".join(states), age(obj, now)]


def device_slice(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of a ResourceSlice."""
    spec = part(obj, "spec")
    pool = part(spec, "pool").get("name", "")
    return [name(obj), spec.get("nodeName", ""), spec.get("driver", ""), pool, age(obj, now)]


def taint_rule(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of a DeviceTaintRule."""
    taint = part(part(obj, "spec"), "taint")
    texts = [taint.get(key, "") for key in ("key", "value", "effect")]
    return [name(obj), *texts, since(taint.get("timeAdded"), now), age(obj, now)]


def pool_status(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of a ResourcePoolStatusRequest: the totals of its pools' devices, and its state."""
    status = part(obj, "status")
    pools, count = status.get("pools") or [], status.get("poolCount") or 0
    met = [one for one in status.get("conditions") or () if one.get("status") == "True"]
    state = next((one["type"] for one in met if one.get("type") in ("Complete", "Failed")), "Pending")
    completed = next((one.get("lastTransitionTime") for one in met if one.get("type") == "Complete"), None)
    sums = ["-"] * 5
    if status and state != "Failed":
        keys = ("totalDevices", "availableDevices", "allocatedDevices", "unavailableDevices")
        sums = [str(sum(pool.get(key) or 0 for pool in pools)) for key in keys]
        sums.append(str(sum(pool.get("validationError") is not None for pool in pools)))
    shown = f"Complete ({len(pools)}/{count} pools)" if state == "Complete" and count > len(pools) else state
    driver = part(obj, "spec").get("driver", "")
    since_then = NONE if state != "Complete" or completed is None else since(completed, now)
    return [name(obj), driver, *sums, count, shown, since_then]
