"""Profiles of the plugins that exist: their extension points are those that the plugins' classes implement."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from dra_shared.features import FeatureGates

from dra_scheduler.componentconfig import load as configuration
from dra_scheduler.componentconfig.load import Loaded
from dra_scheduler.componentconfig.profiles import Profile
from dra_scheduler.componentconfig.types import KubeSchedulerConfiguration
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.framework.plugin import extension_points
from dra_scheduler.plugins.registry import PLUGINS

# The cast is for mypy: on the class, ``name`` is a string, although the protocol declares a property.
_IMPLEMENTED: dict[str, frozenset[str]] = {
    cast(Any, plugin).name: extension_points(plugin) for plugin in PLUGINS
}


def load(text: str, gates: FeatureGates) -> Loaded:
    """Decode, default and validate the configuration in the text.

    Raises:
        ValueError: it is invalid; the message is kube-scheduler's.
    """
    return configuration.load(text, gates, _IMPLEMENTED)


def build_profiles(config: KubeSchedulerConfiguration) -> list[Profile]:
    """Return the effective profiles of a valid configuration.

    Raises:
        ProfileError: no scheduler can be built of them.
    """
    return configuration.build(config, _IMPLEMENTED)


def profiles_of(config: SchedulerConfig) -> Sequence[Profile]:
    """Return the scheduler's profiles. Each schedules the pods that name it."""
    if config.loaded is not None:
        return config.loaded.profiles
    default = configuration.default_profile(config.gates, _IMPLEMENTED)
    return (replace(default, scheduler_name=config.scheduler_name),)
