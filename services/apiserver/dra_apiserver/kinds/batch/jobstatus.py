"""Validate the status of a job and its transitions (`ValidateJobStatusUpdate`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from dra_shared.jsontypes import JsonObject
from dra_shared.numerals import integer

from dra_apiserver.common.counts import check_counts
from dra_apiserver.common.goshapes import Shape, show
from dra_apiserver.errors import (
    OMIT_VALUE,
    FieldError,
    Verbatim,
    duplicate,
    invalid,
    json_value,
    missing_field,
    quote,
)

_COUNTS = ("active", "succeeded", "failed", "ready", "terminating")
_CONDITIONS = "status.conditions"
_UNCOUNTED: Shape = [("Succeeded", "succeeded", None, "null"), ("Failed", "failed", None, "null")]


class _Job:
    """Facts about a job that several checks use."""

    def __init__(self, obj: JsonObject) -> None:
        self.spec: JsonObject = obj.get("spec") or {}
        self.status: JsonObject = obj.get("status") or {}
        self._true = {
            condition.get("type")
            for condition in self.status.get("conditions") or ()
            if condition.get("status") == "True"
        }

    def has(self, condition: str) -> bool:
        return condition in self._true

    @property
    def is_finished(self) -> bool:
        return self.has("Complete") or self.has("Failed")

    @property
    def is_indexed(self) -> bool:
        return self.spec.get("completionMode") == "Indexed"


def check_job_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate a new status. Errors that the old status already had are accepted if the field is unchanged."""
    job, before = _Job(obj), _Job(old)
    errors = check_counts(job.status, _COUNTS, "status") + _check_uncounted(job)
    errors += _check_end(job, before)
    errors += _check_indexes(job, before)
    errors += _check_pods(job, before)
    return errors + _check_criteria(job) + _check_change(job, before)


def _has_changed(job: _Job, before: _Job, *fields: str) -> bool:
    return any(job.status.get(field) != before.status.get(field) for field in fields)


def _has_toggled(job: _Job, before: _Job, *conditions: str) -> bool:
    return any(job.has(condition) != before.has(condition) for condition in conditions)


def _check_uncounted(job: _Job) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    pods = job.status.get("uncountedTerminatedPods") or {}
    for field in ("succeeded", "failed"):
        for index, uid in enumerate(pods.get(field) or ()):
            at = f"status.uncountedTerminatedPods.{field}[{index}]"
            if not uid:
                errors.append(invalid(at, "", "must not be empty"))
            elif uid in seen:
                errors.append(duplicate(at, json_value(uid)))
            seen.add(uid)
    return errors


def _conflict(text: str) -> FieldError:
    return invalid(_CONDITIONS, OMIT_VALUE, text)


def _check_end(job: _Job, before: _Job) -> list[FieldError]:
    """Validate the conditions, start and end of a job that has ended."""
    errors: list[FieldError] = []
    complete, status = job.has("Complete"), job.status
    start, end = status.get("startTime"), status.get("completionTime")
    if _has_toggled(job, before, "Complete", "Failed") and complete and job.has("Failed"):
        errors.append(_conflict("cannot set Complete=True and Failed=true conditions"))
    if _has_toggled(job, before, "Complete", "FailureTarget") and complete and job.has("FailureTarget"):
        errors.append(_conflict("cannot set Complete=True and FailureTarget=true conditions"))
    if _has_toggled(job, before, "Complete") or _has_changed(job, before, "completionTime"):
        if end is not None and not complete:
            text = "cannot set completionTime when there is no Complete=True condition"
            errors.append(invalid("status.completionTime", end, text))
        if end is None and complete:
            errors.append(
                missing_field("status.completionTime", "completionTime is required for Complete jobs")
            )
    if _has_changed(job, before, "startTime", "completionTime") and start and end and end < start:
        errors.append(invalid("status.completionTime", end, "must be equal to or after `startTime`"))
    failed = job.has("Failed") and not job.has("FailureTarget")
    if failed and (_has_toggled(job, before, "Failed") or _has_changed(job, before, "failedIndexes")):
        text = "cannot set Failed=True condition without the FailureTarget=true condition"
        errors.append(_conflict(text))
    unmet = complete and not job.has("SuccessCriteriaMet")
    if unmet and _has_toggled(job, before, "Complete", "SuccessCriteriaMet"):
        text = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        errors.append(_conflict(text))
    if job.is_finished:
        errors += _check_finished(job, before)
    return errors


def _check_finished(job: _Job, before: _Job) -> list[FieldError]:
    errors: list[FieldError] = []
    status, ended = job.status, job.is_finished != before.is_finished
    active, uncounted = status.get("active", 0), status.get("uncountedTerminatedPods") or {}
    if (ended or _has_changed(job, before, "active")) and active > 0:
        errors.append(invalid("status.active", active, "active>0 is invalid for finished job"))
    never = job.spec.get("suspend") is True and job.spec.get("completions") == 0
    if (ended or _has_changed(job, before, "startTime")) and not never and status.get("startTime") is None:
        errors.append(missing_field("status.startTime", "startTime is required for finished job"))
    if (ended or _has_changed(job, before, "uncountedTerminatedPods")) and any(uncounted.values()):
        path, text = "status.uncountedTerminatedPods", "must be empty for finished job"
        errors.append(invalid(path, show(uncounted, _UNCOUNTED), text))
    return errors


def _check_indexes(job: _Job, before: _Job) -> list[FieldError]:
    errors: list[FieldError] = []
    completions = job.spec.get("completions")
    done, failed = job.status.get("completedIndexes", ""), job.status.get("failedIndexes")
    limited = job.spec.get("backoffLimitPerIndex") is not None
    done_changed, failed_changed = (
        _has_changed(job, before, "completedIndexes"),
        _has_changed(job, before, "failedIndexes"),
    )
    if done_changed and completions is not None and (problem := _problem(done, completions)):
        errors.append(invalid("status.completedIndexes", done, f"error parsing completedIndexes: {problem}"))
    if failed_changed and completions is not None and limited and failed is not None:
        problem = _problem(failed, completions)
        if problem:
            errors.append(invalid("status.failedIndexes", failed, f"error parsing failedIndexes: {problem}"))
    if done_changed and done and not job.is_indexed:
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(invalid("status.completedIndexes", done, text))
    if failed_changed and not limited and failed is not None:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(invalid("status.failedIndexes", failed, text))
    if (done_changed or failed_changed) and completions is not None and failed:
        both = _common(done, failed, completions)
        if both is not None:
            text = f"failedIndexes and completedIndexes overlap at index: {both}"
            errors.append(invalid("status.failedIndexes", failed, text))
    return errors


def _check_pods(job: _Job, before: _Job) -> list[FieldError]:
    errors = []
    status, ended = job.status, job.is_finished != before.is_finished
    terminating, ready = status.get("terminating") or 0, status.get("ready") or 0
    if (ended or _has_changed(job, before, "terminating")) and job.is_finished and terminating > 0:
        errors.append(invalid("status.terminating", terminating, "terminating>0 is invalid for finished job"))
    if _has_changed(job, before, "ready", "active") and ready > status.get("active", 0):
        errors.append(invalid("status.ready", ready, "cannot set more ready pods than active"))
    return errors


def _check_criteria(job: _Job) -> list[FieldError]:
    met = job.has("SuccessCriteriaMet")
    errors = [
        _conflict(f"cannot set SuccessCriteriaMet=True and {condition}=true conditions")
        for condition in ("Failed", "FailureTarget")
        if met and job.has(condition)
    ]
    if job.spec.get("successPolicy") is not None and not met and job.has("Complete"):
        text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        errors.append(_conflict(text))
    return errors


def _check_change(job: _Job, before: _Job) -> list[FieldError]:
    """Check the change of a status. Once set, a Job's terminal condition cannot be removed."""
    errors = [
        _conflict(f"cannot disable the terminal {condition}=True condition")
        for condition in ("Failed", "Complete", "FailureTarget")
        if before.has(condition) and not job.has(condition)
    ]
    elastic = job.is_indexed and job.spec.get("completions") == job.spec.get("parallelism")
    for field in ("failed", "succeeded"):
        now = job.status.get(field, 0)
        if now < before.status.get(field, 0) and not (field == "succeeded" and elastic):
            errors.append(invalid(f"status.{field}", now, f"cannot decrease the {field} counter"))
    end, start = job.status.get("completionTime"), job.status.get("startTime")
    if end is not None and before.status.get("completionTime") not in (None, end):
        errors.append(invalid("status.completionTime", end, "field is immutable"))
    resumed = (
        before.has("Suspended")
        and not job.has("Suspended")
        and any(
            condition.get("type") == "Suspended" and condition.get("status") == "False"
            for condition in job.status.get("conditions") or ()
        )
    )
    if not resumed and not job.spec.get("suspend") and before.status.get("startTime") not in (None, start):
        text = "field is immutable for unsuspended job once set"
        errors.append(invalid("status.startTime", Verbatim("null") if start is None else start, text))
    if before.has("SuccessCriteriaMet") and not job.has("SuccessCriteriaMet"):
        errors.append(_conflict("cannot disable the SuccessCriteriaMet=True condition"))
    if before.has("Complete") and not before.has("SuccessCriteriaMet") and job.has("SuccessCriteriaMet"):
        text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        errors.append(_conflict(text))
    return errors


def _interval(text: str, completions: int) -> tuple[int, int] | str:
    """Return the first and last index of `3` or `3-5`, or the error."""
    limits = text.split("-")
    if len(limits) > 2:
        return (
            f"the fragment {quote(text)} violates the requirement that an index interval can have at most two parts "
            "separated by '-'"
        )
    found: list[int] = []
    for limit in limits:
        try:
            number = integer(limit) if limit.isascii() and limit.lstrip("+").isdigit() else None
        except ValueError:
            number = None
        if number is None:
            return f"cannot convert string to integer for index: {quote(limit)}"
        if number >= completions:
            return f"too large index: {quote(limit)}"
        found.append(number)
    if len(found) == 2 and found[0] >= found[1]:
        return f"non-increasing order, previous: {found[0]}, current: {found[1]}"
    return found[0], found[-1]


def check_interval_list(text: str, completions: int) -> tuple[int, str]:
    """Return the number of indexes in a list such as `1,3-5`, and its error."""
    total, last = 0, None
    for part in text.split(",") if text else ():
        found = _interval(part, completions)
        if isinstance(found, str):
            return 0, found
        if last is not None and last >= found[0]:
            return 0, f"non-increasing order, previous: {last}, current: {found[0]}"
        total, last = total + found[1] - found[0] + 1, found[1]
    return total, ""


def _problem(text: str, completions: int) -> str:
    return check_interval_list(text, completions)[1]


def _intervals(text: str, completions: int) -> Iterator[tuple[int, int]]:
    for part in text.split(",") if text else ():
        found = _interval(part, completions)
        if not isinstance(found, str):
            yield found


def _common(done: str, failed: str, completions: int) -> int | None:
    """Return the first index that is in both lists, as far as these can be parsed."""
    pairs = itertools.product(_intervals(done, completions), list(_intervals(failed, completions)))
    shared = (max(one[0], other[0]) for one, other in pairs if one[0] <= other[1] and other[0] <= one[1])
    return min(shared, default=None)
