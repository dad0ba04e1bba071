"""Select a profile's devices for one version of Kubernetes, because fields of devices may differ between versions."""

from collections.abc import Mapping
from typing import Any

import msgspec
from dra_driverkit.errors import DriverConfigError
from dra_shared.version import Version

from dra_node_agent.drivers.profile.model import DeviceTemplate, Profile


def of_version(profile: Profile, kubernetes: Version) -> Profile:
    """Return the profile with the devices of that version.

    Raises:
        DriverConfigError: a version is not known.
    """
    try:
        return msgspec.structs.replace(
            profile,
            devices=_templates(profile.devices, kubernetes),
            pools=tuple(
                msgspec.structs.replace(pool, devices=_templates(pool.devices, kubernetes))
                for pool in profile.pools
            ),
        )
    except ValueError as error:
        raise DriverConfigError(f"driver profile {profile.driver}: since: {error}") from error


def _templates(templates: tuple[DeviceTemplate, ...], kubernetes: Version) -> tuple[DeviceTemplate, ...]:
    return tuple(_template(template, kubernetes) for template in templates)


def _template(template: DeviceTemplate, kubernetes: Version) -> DeviceTemplate:
    device = template.device
    for version, more in sorted((Version.parse(name), more) for name, more in template.since.items()):
        if device is not None and kubernetes >= version:
            device = _merge(device, more)
    return msgspec.structs.replace(
        template, device=device, since={}, devices=_templates(template.devices, kubernetes)
    )


def _merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Merge as in JSON Merge Patch (RFC 7386)."""
    merged = dict(old)
    for name, value in new.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            before = merged.get(name)
            merged[name] = _merge(before if isinstance(before, Mapping) else {}, value)
        else:
            merged[name] = value
    return merged
