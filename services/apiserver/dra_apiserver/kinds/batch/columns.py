"""Columns of jobs and cron jobs (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.durations import human_duration, moment, since
from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.cells import NONE, boolean, selector_text
from dra_apiserver.common.objectcells import age, name, part
from dra_apiserver.kinds.pods.columns import containers


def job(obj: JsonObject, now: datetime) -> list[Any]:
    spec, status = part(obj, "spec"), part(obj, "status")
    done = status.get("succeeded", 0)
    if spec.get("completions") is not None:
        completions = f"{done}/{spec['completions']}"
    elif spec.get("parallelism", 0) > 1:
        completions = f"{done}/1 of {spec['parallelism']}"
    else:
        completions = f"{done}/1"
    start, end = moment(status.get("startTime")), moment(status.get("completionTime"))
    duration = "" if start is None else human_duration(((end or now) - start).total_seconds())
    return [
        name(obj),
        _job_status(obj),
        completions,
        duration,
        age(obj, now),
        *containers(part(spec, "template")),
        selector_text(spec.get("selector")),
    ]


def _job_status(obj: JsonObject) -> str:
    holds = {
        one.get("type") for one in part(obj, "status").get("conditions") or () if one.get("status") == "True"
    }
    for kind in ("Complete", "Failed"):
        if kind in holds:
            return kind
    if part(obj, "metadata").get("deletionTimestamp"):
        return "Terminating"
    return next((kind for kind in ("Suspended", "FailureTarget") if kind in holds), "Running")


def cron_job(obj: JsonObject, now: datetime) -> list[Any]:
    spec, status = part(obj, "spec"), part(obj, "status")
    last = status.get("lastScheduleTime")
    job_spec = part(part(spec, "jobTemplate"), "spec")
    return [
        name(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        boolean(spec.get("suspend")),
        len(status.get("active") or ()),
        since(last, now) if last else NONE,
        age(obj, now),
        *containers(part(job_spec, "template")),
        selector_text(job_spec.get("selector")),
    ]
