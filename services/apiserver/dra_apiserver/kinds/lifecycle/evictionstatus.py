"""Validate the status of evictions (`pkg/apis/lifecycle/validation`).

Many clients write it, so the server holds them to what the eviction controller and the responders may do: one
responder after the other is active, by priority, and only the active one reports progress.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from dra_shared.clock import parse_rfc3339
from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.goshapes import Shape, show
from dra_apiserver.common.objectmeta import IMMUTABLE
from dra_apiserver.errors import FieldError, Verbatim, forbidden_field, invalid, missing_field

_TARGETS, _RESPONDERS = "status.targetResponders", "status.responders"
_SKEW, _DEADLINE, _LONGEST = timedelta(seconds=30), timedelta(minutes=20), timedelta(days=3650)
_MOST = 11
_ACTIVE, _INACTIVE, _COMPLETED = "Active", "Inactive", "Completed"
_FINAL = ("Interrupted", "Canceled", _COMPLETED)
# Responders of Kubernetes itself, which have the priorities below.
_OWN = {"imperative-eviction.k8s.io/evictor": 100}
_RESERVED = 1000
_TARGET: Shape = [
    ("Name", "name", None, ""),
    ("Priority", "priority", None, "null"),
    ("State", "state", None, ""),
]
_RESPONDER: Shape = [
    ("Name", "name", None, ""),
    ("StartTime", "startTime", None, "null"),
    ("HeartbeatTime", "heartbeatTime", None, "null"),
    ("ExpectedCompletionTime", "expectedCompletionTime", None, "null"),
    ("CompletionTime", "completionTime", None, "null"),
    ("Message", "message", None, "null"),
]
_CONDITION: Shape = [
    ("type", "type", None, ""),
    ("status", "status", None, ""),
    ("lastTransitionTime", "lastTransitionTime", None, "null"),
    ("reason", "reason", None, ""),
    ("message", "message", None, ""),
]


class _Turn(NamedTuple):
    """The states that a responder may have now, and the reason."""

    states: tuple[str, ...]
    reason: str


def check_eviction_status(status: JsonObject, old: JsonObject, now: str) -> list[FieldError]:
    """Validate a change of the status. The form of conditions and the declared rules are checked elsewhere."""
    final, errors = _check_final(status.get("conditions") or [], old.get("conditions") or [])
    targets = status.get("targetResponders") or []
    responders = status.get("responders") or []
    moment = parse_rfc3339(now)
    errors += _check_targets(targets, old.get("targetResponders") or [], responders, final, moment)
    return errors + _check_responders(responders, old.get("responders") or [], targets, moment)


def _check_final(conditions: list[JsonObject], old: list[JsonObject]) -> tuple[bool, list[FieldError]]:
    """Return True if the eviction has ended, and the errors of final conditions that were removed."""
    found = {one.get("type"): one for one in reversed(conditions)}
    final = any((found.get(kind) or {}).get("status") == "True" for kind in ("TargetEvicted", "Failed"))
    errors = []
    for before in old:
        kind = before.get("type")
        if kind not in ("TargetEvicted", "Failed") or before.get("status") != "True":
            continue
        one = found.get(kind)
        if one is None or one.get("status") == "False" or one.get("reason") != before.get("reason"):
            text = f"{kind} condition status cannot be reverted"
            errors.append(invalid("status.conditions", show(conditions, [_CONDITION]), text))
            final = True
    return final, errors


def _check_targets(
    targets: list[JsonObject],
    old: list[JsonObject],
    responders: list[JsonObject],
    final: bool,
    now: datetime,
) -> list[FieldError]:
    if old and len(targets) != len(old):
        text = "must preserve the same length and the same keys"
        return [invalid(_TARGETS, show(targets, [_TARGET]), text)]
    if old and not _names(old) <= _names(targets):
        return [invalid(_TARGETS, show(targets, [_TARGET]), "must preserve the same keys")]
    if len(targets) > _MOST or len(_names(targets)) < len(targets):
        return []  # Declared rules report it.
    by_name = {one.get("name"): one for one in responders}
    places = {one.get("name"): index for index, one in enumerate(targets)}
    errors: list[FieldError] = []
    ordered = sorted(targets, key=_rank)
    for target, turn in zip(ordered, _turns(ordered, sorted(old, key=_rank), final), strict=True):
        path = f"{_TARGETS}[{places[target.get('name')]}]"
        responder = by_name.get(target.get("name"))
        errors += _check_target(target, responder, turn, path)
        if responder is not None and target.get("state", "") in turn.states:
            errors += _check_end(target.get("state", ""), responder, final, f"{path}.state", now)
    return errors


def _names(entries: Iterable[JsonObject]) -> set[Any]:
    return {one.get("name") for one in entries}


def _rank(target: JsonObject) -> tuple[Any, ...]:
    """Return the sort key of a responder: the highest priority first, then domains from their ends."""
    domain, _, key = target.get("name", "").partition("/")
    priority = target.get("priority")
    return (priority is None, -(priority or 0), domain.split(".")[::-1], key)


def _turns(targets: list[JsonObject], old: list[JsonObject], final: bool) -> list[_Turn]:
    """Return the allowed states of each responder, in the order of their priorities."""
    active = next((index for index, one in enumerate(old) if one.get("state") == _ACTIVE), -1)
    changed = active >= 0 and targets[active].get("state") != _ACTIVE
    over = bool(old) and active < 0 and (final or old[-1].get("state") in _FINAL)
    turns = []
    for index in range(len(targets)):
        if index < active or over:
            turn = _Turn((old[index].get("state", ""),), "final state is immutable")
        elif index == active and changed:
            turn = _Turn(_FINAL, "this responder must reach a final state")
        elif index == active:
            turn = _Turn((_ACTIVE,), "the eviction request stays active")
            if final:
                turn = _Turn(_FINAL, "the eviction request has finished processing")
        elif (index == 0 and not old) or (index == active + 1 and changed):
            turn = _Turn((_ACTIVE,), "this responder is next in line")
            if final:
                turn = _Turn((_INACTIVE,), "the eviction request has finished processing")
        else:
            turn = _Turn((_INACTIVE,), "the previously active has not finished processing")
        turns.append(turn)
    return turns


def _check_target(
    target: JsonObject, responder: JsonObject | None, turn: _Turn, path: str
) -> list[FieldError]:
    name, state, priority = target.get("name", ""), target.get("state", ""), target.get("priority")
    if responder is None:
        text = f'"{name}" has to be tracked in {_RESPONDERS} first'
        return [invalid(path, show(target, _TARGET), text)]
    errors = []
    if priority is not None and priority >= 0:
        if name in _OWN and priority != _OWN[name]:
            text = f"core k8s responder is expected to have priority: {_OWN[name]}"
            errors.append(invalid(f"{path}.priority", priority, text))
        elif name not in _OWN and priority < _RESERVED:
            text = "priorities 0-999 are reserved for responders with *.k8s.io suffix"
            errors.append(invalid(f"{path}.priority", priority, text))
    if state not in turn.states:
        text = f"must be one of: {', '.join(sorted(turn.states))}, because {turn.reason}"
        errors.append(invalid(f"{path}.state", state, text))
    return errors


def _check_end(state: str, responder: JsonObject, final: bool, path: str, now: datetime) -> list[FieldError]:
    """Check that a responder only stops when it has reported its end, or nothing for too long."""
    errors = []
    completed, started = responder.get("completionTime"), responder.get("startTime")
    if state != _ACTIVE and started and not completed and not final:
        heartbeat = parse_rfc3339(responder.get("heartbeatTime") or started)
        if now < heartbeat + _DEADLINE - _SKEW:
            text = (
                "must stay Active because the responder is in progress and it should report "
                f"{_RESPONDERS}.heartbeatTime or {_RESPONDERS}.completionTime"
            )
            errors.append(forbidden_field(path, text))
    if state == _COMPLETED and not completed:
        text = f"cannot become Completed because the responder didn't report {_RESPONDERS}.completionTime"
        errors.append(invalid(path, state, text))
    return errors


def _check_responders(
    responders: list[JsonObject], old: list[JsonObject], targets: list[JsonObject], now: datetime
) -> list[FieldError]:
    shown = show(responders, [_RESPONDER])
    if len(targets) != len(responders):
        text = "must be the same length as status.targetResponders and contain the same keys"
        return [invalid(_RESPONDERS, shown, text)]
    if not _names(targets) <= _names(responders):
        return [invalid(_RESPONDERS, shown, "must contain the same keys as status.targetResponders")]
    if len(responders) > _MOST or len(_names(responders)) < len(responders):
        return []  # Declared rules report it.
    before = {one.get("name"): one for one in old}
    states = {one.get("name"): one.get("state", "") for one in targets}
    errors: list[FieldError] = []
    for index, one in enumerate(responders):
        name = one.get("name")
        errors += _check_report(one, before.get(name), states[name], f"{_RESPONDERS}[{index}]", now)
    return errors


def _check_report(
    report: JsonObject, old: JsonObject | None, state: str, path: str, now: datetime
) -> list[FieldError]:
    """Validate the times that a responder reports. Only the active one may change its report."""
    if old is not None and report != old and state != _ACTIVE:
        return [invalid(path, show(report, _RESPONDER), IMMUTABLE)]
    before = old or {}
    return [
        *_check_start(report, before, state, f"{path}.startTime", now),
        *_check_heartbeat(report, before, path, now),
        *_check_expected(report, before, path, now),
        *_check_completion(report, before, path, now),
    ]


def _check_start(
    report: JsonObject, old: JsonObject, state: str, path: str, now: datetime
) -> list[FieldError]:
    started = report.get("startTime")
    if old.get("startTime") and old["startTime"] != started:
        return []  # Declared rules report it.
    if not started:
        return [missing_field(path, "is required for an active responder")] if state == _ACTIVE else []
    near = started == old.get("startTime") or _is_near(started, now)
    return [] if near else [_reject_time(path, started, "must be set to the present time")]


def _check_heartbeat(report: JsonObject, old: JsonObject, path: str, now: datetime) -> list[FieldError]:
    at, beat, before = f"{path}.heartbeatTime", report.get("heartbeatTime"), old.get("heartbeatTime")
    if before and not beat:
        return [missing_field(at, "is required once set")]
    if not beat or beat == before:
        return []
    if before and report.get("startTime") and parse_rfc3339(beat) < parse_rfc3339(before):
        return [_reject_time(at, beat, "cannot be decreased")]
    problem = _find_order_problem(beat, report, path)
    if not problem and not _is_near(beat, now):
        problem = "must be set to the present time"
    return [_reject_time(at, beat, problem)] if problem else []


def _check_expected(report: JsonObject, old: JsonObject, path: str, now: datetime) -> list[FieldError]:
    at, expected = f"{path}.expectedCompletionTime", report.get("expectedCompletionTime")
    if not expected or expected == old.get("expectedCompletionTime"):
        return []
    problem = _find_order_problem(expected, report, path)
    if not problem and parse_rfc3339(expected) < now - _SKEW:
        problem = "cannot be set to the past time"
    if not problem and parse_rfc3339(expected) > now + _LONGEST:
        problem = "must complete within 10 years"
    return [_reject_time(at, expected, problem)] if problem else []


def _check_completion(report: JsonObject, old: JsonObject, path: str, now: datetime) -> list[FieldError]:
    at, completed, before = f"{path}.completionTime", report.get("completionTime"), old.get("completionTime")
    if not completed or (before and before != completed):
        return []  # Declared rules report a change.
    problem = _find_order_problem(completed, report, path)
    if not problem and completed != before and not _is_near(completed, now):
        problem = "must be set to the present time"
    return [_reject_time(at, completed, problem)] if problem else []


def _find_order_problem(time: str, report: JsonObject, path: str) -> str:
    """Return what is wrong with a time that must not be before the start; empty if nothing is."""
    started = report.get("startTime")
    if not started:
        return f"cannot be set before {path}.startTime is set"
    return f"must occur after {path}.startTime" if parse_rfc3339(time) < parse_rfc3339(started) else ""


def _is_near(time: str, now: datetime) -> bool:
    return abs(parse_rfc3339(time) - now) < _SKEW


def _reject_time(path: str, time: str, problem: str) -> FieldError:
    return invalid(path, Verbatim(f'"{time}"'), problem)
