"""Our answers in the form of the reference vectors, to compare them with recorded answers of the real scheduler."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from dra_scheduler.componentconfig import gojson
from dra_scheduler.componentconfig.decode import decode
from dra_scheduler.componentconfig.defaults import set_defaults
from dra_scheduler.componentconfig.fielderrors import aggregate
from dra_scheduler.componentconfig.gojson import DecodeError
from dra_scheduler.componentconfig.profiles import Profile, ProfileError
from dra_scheduler.componentconfig.types import (
    API_VERSION,
    KIND,
    KubeSchedulerConfiguration,
    Plugins,
    Unknown,
)
from dra_scheduler.componentconfig.validation import validate
from dra_scheduler.plugins.profiles import build_profiles
from dra_shared.features import FeatureGates
from dra_shared.version import RECORDED, Version

# Texts of Go's decoder, YAML library and TLS. For these, only the presence of an error is compared.
_FOREIGN = ("json: ", "yaml: ", "illegal base64", "couldn't build extenders", "couldn't get version/kind")


def answer(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result for a file: the object with defaults, the validation errors, and the effective profiles."""
    version = Version.parse(case.get("kubernetesVersion", str(RECORDED)))
    gates = FeatureGates(version, **(case.get("featureGates") or {}))
    try:
        config = decode(case["yaml"])
    except DecodeError as problem:
        return {"decodeError": str(problem)}
    set_defaults(config, gates)
    found: dict[str, Any] = {"config": encode(config)}
    errors = validate(config, gates)
    if errors:
        return {**found, "validationErrors": sorted(errors), "validationText": aggregate(errors)}
    try:
        profiles = build_profiles(config)
    except ProfileError as problem:
        return {**found, "schedulerError": str(problem)}
    return {**found, "profiles": {profile.scheduler_name: _encode_profile(profile) for profile in profiles}}


def agrees(ours: Mapping[str, Any], recorded: Mapping[str, Any]) -> bool:
    """True if our answer equals the recorded one in everything that is compared."""
    for key in ("decodeError", "schedulerError"):
        if (key in ours) != (key in recorded):
            return False
        if key in recorded and not _same_text(ours[key], recorded[key]):
            return False
    if set(ours.get("validationErrors") or ()) != set(recorded.get("validationErrors") or ()):
        return False
    same_profiles: bool = ours.get("profiles") == recorded.get("profiles")
    return same_profiles and ours.get("config") == recorded.get("config")


def _same_text(ours: str, recorded: str) -> bool:
    # A nested error has its position as a prefix.
    foreign = any(text in recorded for text in _FOREIGN) and not recorded.startswith(
        "strict decoding error: unknown"
    )
    return foreign or ours == recorded


def encode(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """Encode the object as kube-scheduler does with ``--write-config-to``."""
    shown = copy.deepcopy(config)
    shown.kind, shown.api_version = KIND, API_VERSION
    for profile in shown.profiles or ():
        assert profile.plugins is not None
        profile.scheduler_name = profile.scheduler_name or ""
        for point in dataclasses.fields(Plugins):
            plugins = getattr(profile.plugins, point.name)
            for plugin in (*(plugins.enabled or ()), *(plugins.disabled or ())):
                plugin.weight = plugin.weight or 0
        for plugin_config in profile.plugin_config or ():
            if isinstance(plugin_config.args, Unknown):
                plugin_config.args = plugin_config.args.value
    return dict(gojson.encode(shown))


def _encode_profile(profile: Profile) -> dict[str, Any]:
    weights = {"score": profile.weights, "placementScore": profile.placement_weights}
    plugins = {
        point: [
            {"name": name, "weight": weights[point][name]} if point in weights else {"name": name}
            for name in names
        ]
        for point, names in profile.points.items()
        if names
    }
    percentage = profile.percentage_of_nodes_to_score
    shown: dict[str, Any] = {"plugins": plugins}
    return shown if percentage is None else {**shown, "percentageOfNodesToScore": percentage}
