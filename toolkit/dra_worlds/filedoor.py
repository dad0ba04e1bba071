"""Read the files that the questions of ``dralab plan`` name."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dra_scheduler.plan.fit import Wanted
from dra_scheduler.plan.planner import Planner
from dra_scheduler.plan.purchase.buyer import NodeType
from dra_scheduler.plan.questions.change import ChangeRequest
from dra_scheduler.plan.questions.question import Recording
from dra_scheduler.plan.questions.sweep import SweepRequest
from dra_scheduler.plan.sweeping.trials import Trials
from dra_shared.errors import UserError

from dra_worlds.edits import Changed, apply_changes
from dra_worlds.reading import from_source, manifests
from dra_worlds.timeline import timeline
from dra_worlds.wanted import read_pods
from dra_worlds.working import Settings


class FileDoor:
    """Reads the files that the requests to one planner name.

    ``namespace`` is used for manifests that name none. ``settings`` are those of the planner's scheduler.
    Files that cannot be read raise :class:`UserError`.
    """

    def __init__(self, planner: Planner, settings: Settings, namespace: str | None = None) -> None:
        self._planner = planner
        self._settings = settings
        self._namespace = namespace

    @property
    def planner(self) -> Planner:
        """The planner of the world that the question is about."""
        return self._planner

    def pods(self, given: Any, count: int | None = None) -> Wanted:
        """Return the pods of the manifests."""
        return read_pods(given, self._planner.objects, self._namespace)

    def types(self, given: Any) -> Sequence[NodeType]:
        """Return the types of a catalog."""
        # Imported on demand: importing the GPU models takes a while, and other questions do not need them.
        from dra_worlds.catalog import catalog

        return catalog(Path(given))

    def apply_change(self, change: ChangeRequest) -> tuple[Planner, Sequence[str]]:
        """Return the planner after the edit.

        Raises:
            UserError: the file cannot be read, or nothing is changed.
        """
        source: Any = change.objects
        objects, before = self._planner.objects, self._settings
        problems: list[str] = []
        edits = manifests(from_source(source, problems), problems, objects, again=False)
        if problems:
            raise UserError(problems[0])
        config: Any = change.config
        after = dataclasses.replace(
            before.changed_to(change.kubernetes_version),
            gates=change.feature_gates or before.gates,
            config=config or before.config,
        )
        if not edits.objects and not edits.left_out and after == before:
            raise UserError(f"nothing is changed: there are no objects in {source}")
        setup = None if after == before else after.setup()
        return self._planner.with_changes(objects.with_objects(edits.objects), setup), edits.left_out

    def apply_changes(self, given: Any) -> tuple[Sequence[tuple[str, Planner]], Sequence[str]]:
        """Return the planner after each change of the file."""
        start = Changed("as it is", self._planner.objects, self._settings)
        found = list(apply_changes(Path(given), start))
        planners = [
            (each.name, self._planner.with_changes(each.objects, each.settings.setup())) for each in found
        ]
        return planners, [name for each in found for name in each.left_out]

    def timeline(self, arrivals: Any, objects: Any) -> Recording:
        """Return the timeline of a file. ``objects`` are the shapes that a CSV names."""
        shapes = read_pods(objects, self._planner.objects) if objects else None
        found, problems = timeline(arrivals, self._planner.objects, shapes)
        return Recording(found, shapes.left_out if shapes is not None else (), problems)

    def trials(self, asked: SweepRequest) -> Trials:
        """Return the trials of a sweep's file."""
        from dra_worlds.sweeping.run import run_sweep

        file: Any = asked.variants
        return run_sweep(file, asked.starved_after, self._planner, self._settings)

    def seconds(self, seconds: float) -> float:
        """Return the time limit of a search, which is infinite here."""
        return seconds
