"""A profile's edits, filled with the values of a device."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from dra_driverkit.cdi import ContainerEdits
from dra_driverkit.errors import PrepareError
from dra_shared.api.resource import Device

from dra_node_agent.drivers.profile.model import Edits, Profile
from dra_node_agent.drivers.profile.template import fill_entries, fill_texts


def device_values(device: Device) -> dict[str, Any]:
    """Return the placeholder values of one device."""
    short = device.name.partition("-")[2]
    values: dict[str, Any] = {
        "device": device.name,
        "DEVICE": _environment_name(device.name),
        "id": short,
        "ID": _environment_name(short),
    }
    for name, attribute in device.attributes.items():
        for value in (attribute.string, attribute.int_, attribute.version, attribute.bool_):
            if value is not None:
                values[f"attribute.{name}"] = value
    return values


def container_edits(profile: Profile, edits: Edits, values: Mapping[str, Any]) -> ContainerEdits:
    """Return the edits, except those with a placeholder that has no value.

    Raises:
        PrepareError: the result is not valid.
    """
    filled = {
        "env": list(fill_texts(edits.env, values)),
        "deviceNodes": fill_entries(edits.device_nodes, values),
        "mounts": fill_entries(edits.mounts, values),
        "hooks": fill_entries(edits.hooks, values),
        "netDevices": fill_entries(edits.net_devices, values),
        "additionalGids": edits.additional_gids,
    }
    try:
        return msgspec.convert(filled, ContainerEdits)
    except msgspec.ValidationError as error:
        raise PrepareError(f"profile {profile.driver}: not CDI edits: {error}") from error


def _environment_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", text).upper()
