"""Validate CronJobs."""

from __future__ import annotations

import re

from dra_shared.jsontypes import JsonObject
from dra_shared.numerals import integer

from dra_apiserver.common.counts import check_not_negative
from dra_apiserver.errors import FieldError, Verbatim, invalid, missing_field, not_supported
from dra_apiserver.kinds.batch.jobspec import check_job_spec

_CONCURRENCY = ("Allow", "Forbid", "Replace")
_WORDS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# The fields of a schedule: lowest value, highest value, and names of values, starting with the lowest.
_FIELDS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)


def check_cron_job(spec: JsonObject) -> list[FieldError]:
    """Validate the schedule, the concurrency policy and the job template."""
    errors: list[FieldError] = []
    schedule = spec.get("schedule", "")
    if not schedule:
        errors.append(missing_field("spec.schedule"))
    else:
        problem = _schedule_problem(schedule)
        if "TZ" in schedule:
            text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            errors.append(invalid("spec.schedule", schedule, text))
        elif problem:
            errors.append(invalid("spec.schedule", schedule, problem))
    if spec.get("startingDeadlineSeconds") is not None:
        errors += check_not_negative(spec["startingDeadlineSeconds"], "spec.startingDeadlineSeconds")
    policy = spec.get("concurrencyPolicy", "")
    if not policy:
        errors.append(missing_field("spec.concurrencyPolicy"))
    elif policy not in _CONCURRENCY:
        errors.append(not_supported("spec.concurrencyPolicy", policy, _CONCURRENCY))
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    path = "spec.jobTemplate.spec"
    errors += check_job_spec(job, path)
    if job.get("selector") is not None:
        text = "`selector` will be auto-generated"
        errors.append(invalid(f"{path}.selector", job["selector"], text))
    if job.get("manualSelector"):
        errors.append(not_supported(f"{path}.manualSelector", Verbatim("true"), ("nil", "false")))
    for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        if spec.get(field) is not None:
            errors += check_not_negative(spec[field], f"spec.{field}")
    return errors


def _schedule_problem(schedule: str) -> str:
    if schedule.startswith("@"):
        if schedule in _WORDS or re.fullmatch(r"@every ([0-9.]+(ns|us|ms|s|m|h))+", schedule):
            return ""
        return f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    for field, (low, high, words) in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            problem = _part_problem(part, low, high, words)
            if problem:
                return problem
    return ""


def _part_problem(part: str, low: int, high: int, words: tuple[str, ...]) -> str:
    span, slash, step = part.partition("/")
    if slash and not re.fullmatch("[0-9]+", step, re.ASCII):
        return f'failed to parse int from {step}: strconv.Atoi: parsing "{step}": invalid syntax'
    if slash and integer(step) == 0:
        return f"step of range should be a positive number: {part}"
    if span in ("*", "?"):
        return ""
    first, dash, last = span.partition("-")
    values = []
    for text in (first, last) if dash else (first,):
        if text.lower() in words:
            values.append(low + words.index(text.lower()))
        elif re.fullmatch("[0-9]+", text, re.ASCII):
            values.append(integer(text))
        else:
            return f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
    if values[0] < low:
        return f"beginning of range ({values[0]}) below minimum ({low}): {part}"
    if values[-1] > high:
        return f"end of range ({values[-1]}) above maximum ({high}): {part}"
    if values[0] > values[-1]:
        return f"beginning of range ({values[0]}) beyond end of range ({values[-1]}): {part}"
    return ""
