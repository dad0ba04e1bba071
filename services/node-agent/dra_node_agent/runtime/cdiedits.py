"""The edits with which devices change a container, in the JSON form of a CDI spec."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from dra_driverkit.cdi import ContainerEdits, UnresolvableError, resolve
from dra_shared.jsontypes import JsonObject

from dra_node_agent.runtime.base import PluginDevices, RuntimeFailure
from dra_node_agent.runtime.plugindevices import device_edits


def cdi_edits(device: str, directory: Path) -> JsonObject:
    """Return the edits of a CDI device, with those that its spec file has for all its devices.

    Raises:
        RuntimeFailure: the directory has no such device (any more).
    """
    try:
        edits: JsonObject = msgspec.to_builtins(resolve([device], directory))
    except UnresolvableError as error:
        raise RuntimeFailure("UnresolvableDevice", str(error)) from error
    return edits


def plugin_edits(devices: PluginDevices, env: Mapping[str, str]) -> JsonObject:
    """Return the edits of device plugins, except those of CDI devices."""
    variables = tuple(f"{name}={value}" for name, value in env.items())
    edits: JsonObject = msgspec.to_builtins(device_edits(devices).merge(ContainerEdits(env=variables)))
    return edits
