"""A simulation that goes from world to world by their difference, so that the next variant of a world costs little."""

from collections.abc import Callable, Mapping
from typing import Any

from dra_shared.api.meta import Object
from dra_shared.api.resources import Resource
from dra_shared.version import DEFAULT, Version, release

from dra_scheduler.config import SchedulerConfig
from dra_scheduler.plan.fit import Wanted
from dra_scheduler.plan.objects import RESOURCES, Objects
from dra_scheduler.plan.simulation import Simulation


class Engine:
    """One scheduler for a family of worlds; not for several threads at a time.

    Without ``config`` it is of ``version`` with these ``gates``, and those that the worlds' objects need.
    """

    def __init__(
        self,
        config: SchedulerConfig | None = None,
        *,
        seed: int = 0,
        running: Callable[[], bool] = lambda: True,
        version: Version = DEFAULT,
        gates: Mapping[str, bool] | None = None,
    ) -> None:
        self._config = config
        self._version, self._gates = version, gates or {}
        self._seed = seed
        self._running = running
        self._simulation: Simulation | None = None
        self._objects = Objects()

    @property
    def version(self) -> Version:
        """The version of Kubernetes that the scheduler is of."""
        return self._version if self._config is None else self._config.gates.version

    @property
    def known_gates(self) -> Mapping[str, bool]:
        """The feature gates whose state does not depend on the worlds' objects."""
        if self._config is None:
            return self._gates
        gates = self._config.gates
        return {name: gates.enabled(name) for name in release(gates.version).gates}

    def new(
        self, objects: Objects, asked: Wanted | None = None
    ) -> Callable[[Callable[[], bool]], Simulation]:
        """Return a factory of schedulers without objects, for that world and the objects of a question."""
        config = self._config_for(objects if asked is None else asked.within(objects))
        return lambda running: Simulation(config, seed=self._seed, running=running)

    def _config_for(self, objects: Objects) -> SchedulerConfig:
        return self._config or SchedulerConfig(gates=objects.gates(self._gates, self._version))

    def at(self, objects: Objects, asked: Wanted | None = None) -> Simulation:
        """Return the scheduler with just these objects, with the gates that those of a question need, too."""
        config = self._config_for(objects if asked is None else asked.within(objects))
        known = self._simulation
        if known is None or known.scheduler.config.gates != config.gates:
            self._simulation = Simulation(config, seed=self._seed, running=self._running)
            self._simulation.load((resource, each.values()) for resource, each in objects)
        else:
            _move(known, self._objects, objects)
        self._objects = objects
        assert self._simulation is not None
        return self._simulation


def _move(simulation: Simulation, before: Objects, after: Objects) -> None:
    for resource in reversed(RESOURCES):
        old, new = before.of(resource), after.of(resource)
        if old is not new:
            for key in old.keys() - new.keys():
                simulation.remove(resource, key)
    simulation.load((resource, _changed(before, after, resource)) for resource in RESOURCES)


def _changed(before: Objects, after: Objects, resource: Resource[Any]) -> list[Object]:
    old, new = before.of(resource), after.of(resource)
    return [] if old is new else [obj for key, obj in new.items() if old.get(key) is not obj]
