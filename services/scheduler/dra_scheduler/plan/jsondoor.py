"""Read the requests of ``POST /plan/…``, whose objects are JSON (a :class:`~.questions.question.Door`)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec
from dra_shared.api.resources import DEVICE_CLASSES, NODES, POD_GROUPS, RESOURCE_SLICES
from dra_shared.jsontypes import JsonObject

from dra_scheduler.plan.fit import Wanted
from dra_scheduler.plan.manifests import Manifests
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.planner import Planner
from dra_scheduler.plan.purchase.buyer import NodeType
from dra_scheduler.plan.purchase.recorded import RecordedNode
from dra_scheduler.plan.questions.change import ChangeRequest
from dra_scheduler.plan.questions.nodes import NodeTypeRequest
from dra_scheduler.plan.questions.question import Recording
from dra_scheduler.plan.questions.replay import ArrivalRequest
from dra_scheduler.plan.questions.sweep import SweepRequest
from dra_scheduler.plan.replaying.replayer import Arrival, Timeline
from dra_scheduler.plan.sweeping.trials import Outcome, Trials, try_variant
from dra_scheduler.plan.wanted import of
from dra_scheduler.plugins.profiles import load

_replace = msgspec.structs.replace
_MOST_COPIES = 100_000
_MOST_SECONDS = 3600.0


class JsonDoor:
    """Reads the requests to one planner. Invalid requests raise :class:`ValueError`."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._opened = [planner]

    @property
    def planner(self) -> Planner:
        """The planner for the world that the question is about."""
        return self._planner

    def close(self) -> None:
        """Close the planner, and the planners for changed worlds."""
        for planner in self._opened:
            planner.close()

    def pods(self, given: Sequence[JsonObject], count: int | None = None) -> Wanted:
        """Return the pods of the given objects."""
        if count is not None and not 0 < count <= _MOST_COPIES:
            raise ValueError(f"count must be between 1 and {_MOST_COPIES}")
        return of(Manifests.of(given), self._planner.objects)

    def types(self, given: Sequence[NodeTypeRequest]) -> Sequence[NodeType]:
        """Return the node types of the request, from which ``plan nodes`` chooses."""
        return list(map(_type, given))

    def apply_change(self, change: ChangeRequest) -> tuple[Planner, Sequence[str]]:
        """Return the planner after the change."""
        return self._change(self._planner, change)

    def apply_changes(
        self, given: Sequence[ChangeRequest]
    ) -> tuple[Sequence[tuple[str, Planner]], Sequence[str]]:
        """Return the planner after each of the cumulative changes."""
        now, variants, left_out = self._planner, [], list[str]()
        for number, change in enumerate(given, 1):
            now, unknown = self._change(now, change)
            left_out += unknown
            variants.append((change.name or f"change {number}", now))
        return variants, left_out

    def timeline(self, arrivals: Sequence[ArrivalRequest], objects: Sequence[JsonObject]) -> Recording:
        """Return the timeline of the arrivals."""
        if not arrivals:
            raise ValueError("there are no arrivals")
        pods = [self.pods((each.object,)).pods[0] for each in arrivals]
        others = Manifests.of(objects)
        timeline = Timeline(
            [Arrival(each.at, each.lasts, pod) for each, pod in zip(arrivals, pods, strict=True)],
            [obj for resource, obj in others.objects if resource is POD_GROUPS],  # type: ignore[misc]  # all of POD_GROUPS
            [each for each in others.objects if each[0] is not POD_GROUPS],
        )
        return Recording(timeline, others.left_out)

    def trials(self, asked: SweepRequest) -> Trials:
        """Return one trial for each variant and timeline. The trials run in this thread, one after the other."""
        names = [each.name or f"variant {number}" for number, each in enumerate(asked.variants, 1)]
        if len(set(names)) < len(names) or not names or not asked.draws:
            raise ValueError("a sweep needs variants with unique names, and at least one entry in draws")
        timelines = [self.timeline(arrivals, asked.objects).timeline for arrivals in asked.draws]
        left_out = [name for each in asked.variants for name in Manifests.of(each.objects).left_out]

        def run() -> Iterator[Outcome]:
            for name, change in zip(names, asked.variants, strict=True):
                planner = apply_change(self._planner, change)
                try:
                    for seed, timeline in enumerate(timelines):
                        outcome = try_variant(planner, timeline, asked.starved_after)
                        yield _replace(outcome, variant=name, seed=seed)
                finally:
                    planner.close()

        return Trials(len(names) * len(timelines), run(), left_out)

    def seconds(self, seconds: float) -> float:
        """Check how long a search may take."""
        if not 0 < seconds <= _MOST_SECONDS:
            raise ValueError(f"seconds must be above 0 and at most {_MOST_SECONDS:g}")
        return seconds

    def _change(self, planner: Planner, change: ChangeRequest) -> tuple[Planner, Sequence[str]]:
        after = apply_change(planner, change)
        self._opened.append(after)
        return after, Manifests.of(change.objects).left_out


def apply_change(planner: Planner, change: ChangeRequest) -> Planner:
    """Return a planner for the world and the scheduler after the change.

    Raises:
        ValueError: a node, gate, version or the configuration is invalid.
    """
    setup = planner.setup.with_changes(change.feature_gates, change.kubernetes_version)
    if change.config is not None:
        text = msgspec.json.encode(change.config).decode()
        setup = replace(setup, load=lambda gates: load(text, gates))
    without = planner.without_nodes(change.remove)
    edits = Manifests.of(change.objects).objects
    return without.with_changes(without.objects.with_objects(edits), setup)


def _type(asked: NodeTypeRequest) -> NodeType:
    if asked.price <= 0 or (asked.limit is not None and asked.limit < 0):
        raise ValueError(f"type {asked.name}: the price must be above 0, and a limit not below")
    objects = Objects().with_objects(Manifests.of(asked.objects).objects)
    nodes = list(objects.of(NODES).values())
    if len(nodes) != 1:
        raise ValueError(f"type {asked.name}: objects must have one Node, and its ResourceSlices")
    recorded = RecordedNode(nodes[0], list(objects.of(RESOURCE_SLICES).values()))
    classes = tuple((DEVICE_CLASSES, each) for each in objects.of(DEVICE_CLASSES).values())
    return NodeType(asked.name, asked.price, recorded.make, asked.limit, classes)
