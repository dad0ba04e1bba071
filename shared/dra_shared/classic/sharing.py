"""Convert the sharing of a device: NVIDIA's `sharing` of claim parameters (`sharing.go`), now an opaque config."""

from typing import Any

from dra_shared.classic.drivers import NVIDIA, Driver
from dra_shared.classic.fields import Fields
from dra_shared.jsontypes import JsonObject

CONFIG_VERSION = "resource.nvidia.com/v1beta1"
_OLD_VERSIONS = frozenset({"gpu.nvidia.com/v1alpha1", "gpu.resource.nvidia.com/v1alpha1"})
_CONFIG_KINDS = frozenset({"GpuConfig", "MigDeviceConfig"})
_MPS = (
    "defaultActiveThreadPercentage",
    "defaultPinnedDeviceMemoryLimit",
    "defaultPerDevicePinnedMemoryLimit",
)


def sharing_config(fields: Fields, driver: Driver, mig: bool) -> JsonObject | None:
    """Return the opaque parameters for a `sharing` field, or None if it is empty."""
    if not fields.content:
        return None
    if driver is not NVIDIA:
        fields.rest("the driver's current config is not known")
        return None
    kind = "MigDeviceConfig" if mig else "GpuConfig"
    strategy = fields.text("strategy") or "TimeSlicing"
    if strategy == "None":
        fields.note_implied("strategy", "without a config a device is not shared")
        return None
    fields.note_moved("strategy", f"an opaque {kind}: sharing.strategy")
    sharing: JsonObject = {"strategy": strategy}
    slicing, mps = fields.inner("timeSlicingConfig"), fields.inner("mpsConfig")
    if mig and slicing.content:
        slicing.note_lost("", "MIG devices have no time slice")
    elif slicing.content:
        sharing["timeSlicingConfig"] = _time_slicing(slicing)
    if mps.content:
        sharing["mpsConfig"] = _mps(mps)
    fields.rest("sharing has no such field")
    return {"apiVersion": CONFIG_VERSION, "kind": kind, "sharing": sharing}


def convert_config(parameters: Any) -> JsonObject | None:
    """Convert opaque parameters of the driver's config API before v1beta1 to the current version; None for others."""
    if not isinstance(parameters, dict) or parameters.get("apiVersion") not in _OLD_VERSIONS:
        return None
    if parameters.get("kind") not in _CONFIG_KINDS:
        return None
    return {**parameters, "apiVersion": CONFIG_VERSION}


def _time_slicing(fields: Fields) -> JsonObject:
    config: dict[str, Any] = {}
    for name in ("timeSlice", "interval"):
        if interval := fields.text(name):
            fields.note_moved(name, "sharing.timeSlicingConfig.interval")
            config["interval"] = interval
    fields.rest("a time slice has no such field")
    return config


def _mps(fields: Fields) -> JsonObject:
    config: dict[str, Any] = {}
    for name in _MPS:
        if name in fields.content:
            config[name] = fields.take(name)
            fields.note_moved(name, f"sharing.mpsConfig.{name}")
    fields.rest("MPS has no such setting")
    return config
