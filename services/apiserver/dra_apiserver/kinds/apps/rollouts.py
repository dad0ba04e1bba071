"""Validate the update strategies of workloads."""

from __future__ import annotations

import math
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.numerals import integer

from dra_apiserver.common.counts import check_count_or_percent
from dra_apiserver.errors import FieldError, forbidden_field, invalid, missing_field, not_supported


def check_strategy(word: str, spec: JsonObject) -> list[FieldError]:
    """Validate the strategy of a deployment, daemon set or stateful set."""
    if word == "deployment" and "strategy" in spec:
        return _check_deployment(spec.get("strategy") or {})
    if word == "daemonset":
        return _check_daemon_set(spec.get("updateStrategy") or {})
    if word == "statefulset":
        return _check_stateful_set(spec)
    return []


def _check_deployment(strategy: JsonObject) -> list[FieldError]:
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.strategy"
    if kind == "Recreate":
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [] if rolling is None else [forbidden_field(f"{path}.rollingUpdate", text)]
    if kind != "RollingUpdate":
        return [_unknown_type(strategy, path, ("Recreate", "RollingUpdate"))]
    if rolling is None:
        return [missing_field(f"{path}.rollingUpdate", "this should be defaulted and never be nil")]
    return _check_bounds(rolling, f"{path}.rollingUpdate", "may not be 0 when `maxSurge` is 0")


def _unknown_type(strategy: JsonObject, path: str, known: tuple[str, ...]) -> FieldError:
    """Return the error of an unknown strategy. Upstream prints the whole strategy as a Go struct."""
    rolling, bounds = strategy.get("rollingUpdate"), None
    if rolling is not None:
        bounds = {"MaxUnavailable": rolling.get("maxUnavailable", 0), "MaxSurge": rolling.get("maxSurge", 0)}
    return not_supported(path, {"Type": strategy.get("type", ""), "RollingUpdate": bounds}, known)


def _check_bounds(rolling: JsonObject, path: str, both: str) -> list[FieldError]:
    down, up = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = check_count_or_percent(down, f"{path}.maxUnavailable", limited=False)
    errors += check_count_or_percent(up, f"{path}.maxSurge", limited=False)
    if _number(down) == 0 and _number(up) == 0:
        errors.append(invalid(f"{path}.maxUnavailable", down, both))
    if isinstance(down, str) and _number(down) > 100:
        errors.append(invalid(f"{path}.maxUnavailable", down, "must not be greater than 100%"))
    return errors


def _number(value: Any) -> float:
    if isinstance(value, int):
        return value
    digits = str(value).removesuffix("%")
    return integer(digits) if digits.isdecimal() else math.nan if digits.startswith("-") else 0


def _check_daemon_set(strategy: JsonObject) -> list[FieldError]:
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy"
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        return [_unknown_type(strategy, path, ("RollingUpdate", "OnDelete"))]
    if rolling is None:
        return [missing_field(f"{path}.rollingUpdate")]
    path += ".rollingUpdate"
    down, up = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = check_count_or_percent(down, f"{path}.maxUnavailable")
    errors += check_count_or_percent(up, f"{path}.maxSurge")
    if _number(down) > 0 and _number(up) > 0:
        text = "may not be set when maxUnavailable is non-zero"
        errors.append(invalid(f"{path}.maxSurge", up, text))
    elif _number(down) == 0 and _number(up) == 0:
        errors.append(missing_field(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


def _check_stateful_set(spec: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    management, strategy = spec.get("podManagementPolicy", ""), spec.get("updateStrategy") or {}
    if not management:
        errors.append(missing_field("spec.podManagementPolicy"))
    elif management not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        errors.append(invalid("spec.podManagementPolicy", management, text))
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy"
    if not kind:
        errors.append(missing_field(path))
    elif kind == "OnDelete":
        if rolling is not None:
            text = "only allowed for updateStrategy 'RollingUpdate'"
            errors.append(invalid(f"{path}.rollingUpdate", rolling, text))
    elif kind != "RollingUpdate":
        errors.append(invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'"))
    elif rolling is not None and (rolling.get("partition") or 0) < 0:
        text = "must be greater than or equal to 0"
        errors.append(invalid(f"{path}.rollingUpdate.partition", rolling["partition"], text))
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for name in ("whenDeleted", "whenScaled"):
        value = retention.get(name)
        if value is not None and value not in ("Retain", "Delete"):
            at = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
            errors.append(not_supported(at, value, ("Retain", "Delete")))
    return errors
