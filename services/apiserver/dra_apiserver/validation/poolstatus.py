"""ResourcePoolStatusRequest: validated by what upstream's types declare, in the order of their fields."""

from __future__ import annotations

from typing import Any

from dra_shared.names import dns_subdomain

from dra_apiserver.errors import FieldError, Verbatim, invalid, required, too_long, too_many
from dra_apiserver.strategy.objectmeta import IMMUTABLE
from dra_apiserver.validation import names
from dra_apiserver.validation.conditions import check_conditions
from dra_apiserver.validation.gojson import POOL_STATUS, show

JsonObject = dict[str, Any]
_MOST_POOLS = 1000
_CONDITIONS = 10
_POOL_NAME_LENGTH = 253
_ERROR_LENGTH = 256
_COUNTS = ("totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices")


def check_request(spec: JsonObject, path: str = "spec") -> list[FieldError]:
    """The spec of a new request."""
    errors = _check_driver(spec.get("driver", ""), f"{path}.driver")
    if spec.get("poolName") is not None:
        errors += _check_pool_name(spec["poolName"], f"{path}.poolName")
    limit = spec.get("limit")
    if limit is not None:
        errors += _at_least(limit, 1, f"{path}.limit")
        if limit > _MOST_POOLS:
            text = f"must be less than or equal to {_MOST_POOLS}"
            errors.append(invalid(f"{path}.limit", limit, text))
    return errors


def check_unchanged(spec: JsonObject, old: JsonObject, path: str = "spec") -> list[FieldError]:
    """The spec never changes."""
    return [] if spec == old else [invalid(path, Verbatim("null"), IMMUTABLE)]


def check_request_status(
    status: JsonObject | None, old: JsonObject | None, path: str = "status"
) -> list[FieldError]:
    """The status, which is written once."""
    if old and status == old:
        return []
    errors: list[FieldError] = []
    if old:
        errors.append(invalid(path, show(status, POOL_STATUS), IMMUTABLE))
    if status is None:
        return errors
    if status.get("conditions"):
        errors += check_conditions(status["conditions"], f"{path}.conditions")
    count = status.get("poolCount")
    errors += [required(f"{path}.poolCount")] if count is None else _at_least(count, 0, f"{path}.poolCount")
    pools, conditions = status.get("pools") or [], status.get("conditions") or []
    if len(pools) > _MOST_POOLS:
        errors.append(too_many(f"{path}.pools", len(pools), _MOST_POOLS))
    else:
        for index, pool in enumerate(pools):
            errors += _check_pool(pool, f"{path}.pools[{index}]")
    if len(conditions) > _CONDITIONS:
        errors.append(too_many(f"{path}.conditions", len(conditions), _CONDITIONS))
    return errors


def _check_pool(pool: JsonObject, path: str) -> list[FieldError]:
    errors = _check_driver(pool.get("driver", ""), f"{path}.driver")
    name = pool.get("poolName", "")
    errors += _check_pool_name(name, f"{path}.poolName") if name else [required(f"{path}.poolName")]
    generation = pool.get("generation") or 0
    errors += _at_least(generation, 0, f"{path}.generation")
    for field, least in (("resourceSliceCount", 1), *((count, 0) for count in _COUNTS)):
        if pool.get(field) is not None:
            errors += _at_least(pool[field], least, f"{path}.{field}")
    if pool.get("nodeName") is not None:
        errors += names.subdomain(pool["nodeName"], f"{path}.nodeName")
    if len((pool.get("validationError") or "").encode()) > _ERROR_LENGTH:
        errors.append(too_long(f"{path}.validationError", _ERROR_LENGTH))
    return errors


def _check_driver(driver: str, path: str) -> list[FieldError]:
    if not driver:
        return [required(path)]
    texts = dns_subdomain(driver.lower(), bytes_limit=True)
    return [invalid(path, driver, _caseless(text)) for text in texts]


def _caseless(text: str) -> str:
    return text.replace("a lowercase RFC 1123 subdomain must consist of lower case", "an RFC 1123 subdomain must "
                        "consist of").replace("'example.com'", "'Example.com'")  # fmt: skip


def _check_pool_name(name: str, path: str) -> list[FieldError]:
    errors = []
    if len(name.encode()) > _POOL_NAME_LENGTH:
        errors.append(too_long(path, _POOL_NAME_LENGTH))
    for index, part in enumerate(name.split("/")):
        texts = dns_subdomain(part, bytes_limit=True) if part else ["must not be empty"]
        errors += [invalid(path, part or name, f"segment {index}: {text}") for text in texts]
    return errors


def _at_least(value: int, least: int, path: str) -> list[FieldError]:
    return [] if value >= least else [invalid(path, value, f"must be greater than or equal to {least}")]
