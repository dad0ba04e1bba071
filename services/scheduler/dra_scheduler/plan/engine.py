"""A simulation that moves from world to world by applying their difference, so that variants are cheap."""

import weakref
from collections.abc import Callable
from typing import Any

from dra_shared.api.meta import Object
from dra_shared.api.resources import Resource

from dra_scheduler.plan.fit import Wanted
from dra_scheduler.plan.objects import RESOURCES, Objects
from dra_scheduler.plan.setup import Setup
from dra_scheduler.plan.simulation import Simulation

_NOTHING = Wanted(())


class Engine:
    """One scheduler for several similar worlds. It may only be used by one thread at a time.

    ``running`` is called between attempts and returns False to stop.
    """

    def __init__(self, setup: Setup | None = None, *, running: Callable[[], bool] = lambda: True) -> None:
        self.setup = setup or Setup()
        self._running = running
        self._simulation: Simulation | None = None
        self._end: Callable[[], Any] | None = None
        self._objects = Objects()

    def new(self, objects: Objects, wanted: Wanted = _NOTHING) -> Callable[[Callable[[], bool]], Simulation]:
        """Return a function that creates empty simulations, configured for that world and the wanted pods."""
        config = self.setup.config(wanted.within(objects))
        return lambda running: Simulation(config, seed=self.setup.seed, running=running)

    def at(self, objects: Objects, wanted: Wanted = _NOTHING) -> Simulation:
        """Return the simulation with exactly these objects, and the gates that they and ``wanted`` need."""
        config = self.setup.config(wanted.within(objects))
        known = self._simulation
        if known is None or known.scheduler.config.gates != config.gates:
            self.close()
            known = Simulation(config, seed=self.setup.seed, running=self._running)
            # Pods that wait for a volume keep a scheduler busy until it is closed.
            self._end = weakref.finalize(self, known.close)
            known.load((resource, each.values()) for resource, each in objects)
        else:
            _move(known, self._objects, objects)
        self._simulation, self._objects = known, objects
        return known

    def close(self) -> None:
        """Close the scheduler. The next question starts another one."""
        if self._end is not None:
            self._end()
            self._end = self._simulation = None


def _move(simulation: Simulation, before: Objects, after: Objects) -> None:
    for resource in reversed(RESOURCES):
        old, new = before.of(resource), after.of(resource)
        if old is not new:
            for key in old.keys() - new.keys():
                simulation.remove(resource, key)
    simulation.load((resource, _changed_objects(before, after, resource)) for resource in RESOURCES)


def _changed_objects(before: Objects, after: Objects, resource: Resource[Any]) -> list[Object]:
    old, new = before.of(resource), after.of(resource)
    return [] if old is new else [obj for key, obj in new.items() if old.get(key) is not obj]
