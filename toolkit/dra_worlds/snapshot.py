"""The current state of a cluster or a dump, as our scheduler sees it. Nothing is scheduled or written."""

import functools
from collections.abc import Iterable
from typing import Any

import msgspec
import orjson
from dra_kube.access import ChosenCluster
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.explain.free import free
from dra_scheduler.explain.freetext import render_free
from dra_scheduler.explain.reported import as_reported
from dra_scheduler.explain.text import render, render_class
from dra_scheduler.plan.engine import Engine
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.planner import Planner
from dra_scheduler.plan.simulation import Simulation
from dra_shared.api.resources import PODS
from dra_shared.errors import UserError

from dra_worlds.running import UNKNOWN, Running, of_objects
from dra_worlds.working import Settings


class Snapshot:
    """Explains what a scheduler would do with these objects."""

    def __init__(self, objects: Objects, running: Running = UNKNOWN, problems: Iterable[str] = ()) -> None:
        self.objects = objects
        self.problems = tuple(problems)
        self.uncertain: tuple[str, ...] = ()
        self._engine = Engine(Settings(cluster=running).setup())

    @functools.cached_property
    def _world(self) -> Simulation:
        return self._engine.at(self.objects)

    @property
    def config(self) -> SchedulerConfig:
        """Return the scheduler's configuration, with the cluster's version and feature gates if they are known."""
        return self._engine.setup.config(self.objects)

    def planner(self) -> Planner:
        """Return a planner for the objects, which runs a separate scheduler."""
        return Planner(self.objects, Engine(self._engine.setup), problems=self.problems)

    @classmethod
    async def read(cls, source: str | None, cluster: ChosenCluster) -> "Snapshot":
        """Read the objects of a dump, or of a running cluster. Missing objects are reported in ``uncertain``.

        Raises:
            UserError: they cannot be read.
        """
        from dra_worlds.sources import from_cluster, is_kubeconfig, kubeconfig_cluster

        problems: list[str] = []
        if source is None or is_kubeconfig(source):
            chosen = cluster if source is None else kubeconfig_cluster(source, cluster.context)
            objects, running = await from_cluster(chosen, problems)
        else:
            from dra_worlds.reading import read

            objects = read(source, problems)
            running = of_objects(objects, problems)
        made = cls(objects, running, problems)
        made.uncertain = made.planner().uncertain()
        return made

    def explain(self, kind: str, namespace: str, name: str, nodes: int) -> tuple[dict[str, Any], str]:
        """Explain a pod, claim or class, as JSON and as text.

        Raises:
            UserError: there is no such object.
        """
        explainer = self._world.scheduler.explainer
        if kind == "class":
            found = explainer.device_class(name)
            if found is None:
                raise UserError(f'there is no DeviceClass "{name}"')
            return orjson.loads(msgspec.json.encode(found)), render_class(found)
        explain = explainer.pod if kind == "pod" else explainer.claim
        report = explain(namespace, name, most_nodes=nodes)
        if report is None:
            what = "pod" if kind == "pod" else "resourceclaim"
            raise UserError(f'there is no {what} "{namespace}/{name}"')
        report = self._world.with_refusal(as_reported(report, self.objects.of(PODS)))
        answer: dict[str, Any] = orjson.loads(msgspec.json.encode(report))
        return answer, render(report)

    async def free(self, output: str) -> str:
        """Return the free devices, as JSON or as tables."""
        scheduler = self._world.scheduler
        report = await free(scheduler.manager, scheduler.cache.node_objects())
        return msgspec.json.encode(report).decode() if output == "json" else render_free(report)
