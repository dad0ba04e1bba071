"""Load the configuration file in the steps of kube-scheduler's start (``cmd/kube-scheduler/app``)."""

from collections.abc import Sequence
from dataclasses import dataclass

from dra_shared.features import FeatureGates

from dra_scheduler.componentconfig.decode import decode
from dra_scheduler.componentconfig.defaults import set_defaults
from dra_scheduler.componentconfig.extenders import build_extenders
from dra_scheduler.componentconfig.fielderrors import aggregate
from dra_scheduler.componentconfig.profiles import Implemented, Profile, ProfileError, effective
from dra_scheduler.componentconfig.types import KubeSchedulerConfiguration
from dra_scheduler.componentconfig.validation import validate


@dataclass(frozen=True)
class Loaded:
    """A valid configuration and its effective profiles."""

    config: KubeSchedulerConfiguration
    profiles: Sequence[Profile]


def load(text: str, gates: FeatureGates, implemented: Implemented) -> Loaded:
    """Decode, default and validate the configuration in the text.

    Raises:
        ValueError: it is invalid; the message is kube-scheduler's.
    """
    config = decode(text)
    set_defaults(config, gates)
    errors = validate(config, gates)
    if errors:
        raise ValueError(aggregate(errors))
    return Loaded(config, build(config, implemented))


def default_profile(gates: FeatureGates, implemented: Implemented) -> Profile:
    """Return the default profile, which a scheduler without a configuration file uses."""
    config = KubeSchedulerConfiguration()
    set_defaults(config, gates)
    return build(config, implemented)[0]


def build(config: KubeSchedulerConfiguration, implemented: Implemented) -> list[Profile]:
    """Return the effective profiles of a valid configuration.

    Raises:
        ProfileError: the scheduler cannot be created with a profile.
    """
    profiles = config.profiles or []
    build_extenders(config.extenders or [], profiles)
    built = []
    for profile in profiles:
        try:
            built.append(effective(profile, implemented))
        except ProfileError as problem:
            name = profile.scheduler_name
            raise ProfileError(
                f"initializing profiles: creating profile for scheduler name {name}: {problem}"
            ) from None
    return built
