"""Warnings of jobs and cron jobs (their strategies' WarningsOnCreate and WarningsOnUpdate)."""

from __future__ import annotations

from collections.abc import Iterator

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.warnings import name_warnings, spec_of, template_changed
from dra_apiserver.kinds.pods.specwarnings import pod_warnings

_HUGE_INDEXED_JOB = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes "
    "might not be able to track completedIndexes when a big number of indexes fail"
)
_COMPLETIONS, _PARALLELISM = 100_000, 10_000


def _job_spec(spec: JsonObject, path: str) -> Iterator[str]:
    huge = (spec.get("completions") or 0) > _COMPLETIONS and (spec.get("parallelism") or 0) > _PARALLELISM
    if huge and spec.get("completionMode") == "Indexed":
        yield f"{path}: {_HUGE_INDEXED_JOB}"
    yield from pod_warnings(spec.get("template") or {}, f"{path}.template.")


def job(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    yield from name_warnings(obj, old)
    if template_changed(obj, old):
        yield from _job_spec(spec_of(obj), "spec")


def cron_job(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    yield from name_warnings(obj, old)
    if template_changed(obj, old):
        yield from _job_spec(
            (spec_of(obj).get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec"
        )
    if old is not None and "TZ" in spec_of(obj).get("schedule", ""):
        yield (
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
            "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )
