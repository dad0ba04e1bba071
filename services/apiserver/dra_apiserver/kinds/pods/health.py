"""Validate the users in containers' statuses, and the health of their devices."""

from __future__ import annotations

from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid,
    json_value,
    missing_field,
    not_supported,
    too_long,
)

_HEALTH = ("Healthy", "Unhealthy", "Unknown")
_LONGEST_MESSAGE = 1024
_LARGEST_ID = 2**31 - 1
_FIELDS = (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers"))
_EPHEMERAL = "ephemeralContainerStatuses"


def check_users(status: JsonObject, spec: JsonObject, path: str) -> list[FieldError]:
    """Validate the users of containers (`validateContainerStatusUsers`)."""
    windows = (spec.get("os") or {}).get("name") == "windows"
    errors: list[FieldError] = []
    for field in (*(name for name, _ in _FIELDS), _EPHEMERAL):
        for index, one in enumerate(status.get(field) or ()):
            user = (one.get("user") or {}).get("linux")
            if user is None:
                continue
            at = f"{path}.{field}[{index}].user.linux"
            if windows:
                errors.append(forbidden_field(at, "cannot be set for a windows pod"))
            else:
                errors += _check_user(user, at)
    return errors


def _check_user(user: JsonObject, path: str) -> list[FieldError]:
    ids = [(name, user.get(name, 0)) for name in ("uid", "gid")]
    ids += [(f"supplementalGroups[{i}]", one) for i, one in enumerate(user.get("supplementalGroups") or ())]
    text = f"must be between 0 and {_LARGEST_ID}, inclusive"
    return [invalid(f"{path}.{name}", value, text) for name, value in ids if not 0 <= value <= _LARGEST_ID]


def check_allocated_resources(status: JsonObject, spec: JsonObject, path: str) -> list[FieldError]:
    """Validate the health of devices: they belong to the container's claims and resources, each device once."""
    errors: list[FieldError] = []
    for field, members in _FIELDS:
        known = {one.get("name"): _Resources(one) for one in reversed(spec.get(members) or ())}
        for index, one in enumerate(status.get(field) or ()):
            for number, resource in enumerate(one.get("allocatedResourcesStatus") or ()):
                at = f"{path}.{field}[{index}].allocatedResourcesStatus[{number}]"
                resources = known.get(one.get("name"))
                if resources is not None:
                    errors += resources.check(resource.get("name", ""), f"{at}.name")
                errors += _check_devices(resource.get("resources") or (), f"{at}.resources")
    for index, one in enumerate(status.get(_EPHEMERAL) or ()):
        if one.get("allocatedResourcesStatus"):
            at = f"{path}.{_EPHEMERAL}[{index}].allocatedResourcesStatus"
            errors.append(forbidden_field(at, "must not be specified in container status"))
    return errors


class _Resources:
    """The names of the resources that a container requests."""

    def __init__(self, container: JsonObject) -> None:
        resources = container.get("resources") or {}
        self._requests: JsonObject = resources.get("requests") or {}
        self._claims = {
            f"claim:{claim.get('name', '')}" + (f"/{claim['request']}" if claim.get("request") else "")
            for claim in resources.get("claims") or ()
        }

    def check(self, name: str, path: str) -> list[FieldError]:
        """Check that the name is one of them."""
        if name in (self._claims if name.startswith("claim:") else self._requests):
            return []
        text = "must match one of the container's resource requests"
        if name.startswith("claim:"):
            text = (
                "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
                "'claim:<claimName>' if request is empty"
            )
        return [invalid(path, json_value(name), text)]


def _check_devices(devices: Any, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, device in enumerate(devices):
        at = f"{path}[{index}]"
        if device.get("health", "") not in _HEALTH:
            errors.append(not_supported(f"{at}.health", device.get("health", ""), _HEALTH))
        message = device.get("message")
        if message == "":
            errors.append(missing_field(f"{at}.message", "must be non-empty if specified"))
        elif message is not None and len(message.encode()) > _LONGEST_MESSAGE:
            errors.append(too_long(f"{at}.message", _LONGEST_MESSAGE))
        name = device.get("resourceID", "")
        if name in seen:
            errors.append(duplicate(f"{at}.resourceID", json_value(name)))
        seen.add(name)
    return errors
