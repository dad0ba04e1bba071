"""Configuration of a world's scheduler: version, feature gates, KubeSchedulerConfiguration, seed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from dra_shared.features import FeatureGates, read
from dra_shared.version import DEFAULT, Version, release

from dra_scheduler.componentconfig.load import Loaded
from dra_scheduler.config import DEFAULT_SCHEDULER_NAME, SchedulerConfig
from dra_scheduler.plan.objects import Objects


@dataclass(frozen=True)
class Setup:
    """The setup of a world's scheduler.

    ``gates`` are the feature gates with a known state. The state of other gates is derived from the world's
    objects. ``load`` reads a KubeSchedulerConfiguration for these gates. ``before`` is the setup before a
    change of the version.
    """

    version: Version = DEFAULT
    gates: Mapping[str, bool] = field(default_factory=dict)
    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    load: Callable[[FeatureGates], Loaded] | None = None
    seed: int = 0
    before: "Setup | None" = None

    @classmethod
    def of(cls, config: SchedulerConfig, *, seed: int = 0) -> "Setup":
        """Return the setup of a scheduler with the configuration ``config``."""
        gates, loaded = config.gates, config.loaded
        return cls(
            version=gates.version,
            gates={name: gates.enabled(name) for name in release(gates.version).gates},
            scheduler_name=config.scheduler_name,
            load=None if loaded is None else lambda gates: loaded,
            seed=seed,
        )

    def config(self, objects: Objects) -> SchedulerConfig:
        """Return the configuration for a world with these objects.

        Raises:
            ValueError: the KubeSchedulerConfiguration is malformed.
        """
        gates = self.gates_for(objects)
        loaded = self.load(gates) if self.load is not None else None
        return SchedulerConfig(scheduler_name=self.scheduler_name, loaded=loaded, gates=gates)

    def gates_for(self, objects: Objects) -> FeatureGates:
        """Return the feature gates of a cluster that has these objects.

        After a change of the version, gates that had to be set before it are set.
        """
        if self.before is None:
            return objects.gates(self.gates, self.version)
        needed = {need.gate: True for need in objects.needs(self.before.gates, self.before.version)}
        return FeatureGates(self.version, **(keep_accepted(needed, self.version) | dict(self.gates)))

    def with_changes(self, gates: str, version: str) -> "Setup":
        """Return the setup with these feature gates (the syntax of ``--feature-gates``) and this version, if any.

        Raises:
            ValueError: the version or a feature gate is malformed.
        """
        if not gates and not version:
            return self
        after = Version.parse(version) if version else self.version
        if after == self.version:
            return replace(self, gates=chosen_gates(self.gates, gates, after))
        # Another version has other defaults, so only gates that were set explicitly are kept.
        known = release(self.version).gates
        now = {name: on for name, on in self.gates.items() if name in known and known[name].default != on}
        gates_then = chosen_gates(now, gates, after)
        return replace(self, version=after, gates=gates_then, before=self.before or self)


def chosen_gates(now: Mapping[str, bool], text: str, version: Version) -> dict[str, bool]:
    """Return the gates of ``now`` that the version accepts, overridden by the gates in ``text``.

    Raises:
        ValueError: a feature gate is malformed.
    """
    wanted = keep_accepted(now, version) | read(text, version)
    named = FeatureGates.parse(",".join(f"{name}={str(on).lower()}" for name, on in wanted.items()), version)
    # A gate for a group, such as AllAlpha, sets all gates of its group.
    return {
        name: named.enabled(name)
        for name, gate in release(version).gates.items()
        if name in wanted or named.enabled(name) != gate.default
    }


def keep_accepted(now: Mapping[str, bool], version: Version) -> dict[str, bool]:
    """Return the set gates that ``version`` accepts, after applying the advice of its error messages."""
    known = release(version).gates
    kept = {
        name: on
        for name, on in now.items()
        if name in known and not (known[name].locked and known[name].default != on)
    }
    # A gate is refused if its dependencies are gone. Drop it, or switch it off if it is on by default.
    while unmet := [text.partition(" ")[0] for text in FeatureGates(version, **kept).find_unmet()]:
        for name in unmet:
            if kept.pop(name, None) is None:
                kept[name] = False
    return kept
