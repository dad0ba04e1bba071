"""Placement: filters the nodes, scores the feasible ones and picks one of the best.

Mirrors ``schedulePod`` in upstream's ``pkg/scheduler/schedule_one.go``. A nominated node is examined first,
because preemption made room for this pod there.
"""

import asyncio
import contextlib
import random
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import mul

from dra_shared.api.pod import Pod
from dra_shared.clock import Clock

from dra_scheduler.equivalence import EquivalenceCache, EquivalenceClass
from dra_scheduler.extenders.chain import EXTENDER, Extenders, Passed
from dra_scheduler.extenders.client import ExtenderError
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.diagnosis import Diagnosis
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.offload import Offload
from dra_scheduler.framework.plugin import FilterPlugin, ScorePlugin
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Code, unresolvable

_MIN_FEASIBLE = 100
_MIN_PERCENTAGE = 5
# Other tasks run after this many seconds of examining nodes.
_SLICE = 0.01


# The status of nodes that no plugin examined because required node affinity excludes them.
_FILTERED_OUT = unresolvable("node(s) didn't satisfy plugin(s) [NodeAffinity]").of("NodeAffinity")


class Unschedulable(Exception):
    """No node can take the pod. ``diagnosis`` has the reasons."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(diagnosis.message)
        self.diagnosis = diagnosis


class AttemptError(Exception):
    """The attempt failed with an error. The text appears in the pod's event."""


@dataclass(slots=True)
class Attempt:
    """The attempt to place one pod."""

    pod: Pod
    state: CycleState
    verdicts: EquivalenceClass
    filters: Sequence[FilterPlugin] = ()
    scorers: Sequence[tuple[ScorePlugin, int]] = ()
    restricted: bool = False


class Placement:
    """Chooses nodes, and reuses verdicts for pods with equal signatures.

    ``percentage`` is the part of all nodes that is enough to choose among (percentageOfNodesToScore). With 0
    it depends on the number of nodes. ``extenders`` are called in each attempt.
    """

    def __init__(
        self,
        framework: Framework,
        cache: Cache,
        clock: Clock,
        rng: random.Random,
        percentage: int = 0,
        extenders: Extenders | None = None,
    ) -> None:
        self._framework = framework
        self._extenders = extenders or Extenders()
        self._score_problem = framework.score_problem
        self._percentage = percentage
        self._cache = cache
        self._clock = clock
        self._rng = rng
        self._memory = EquivalenceCache(cache)
        self._next_start = 0

    def restart(self) -> None:
        """Forget all verdicts, and start the next search at the first node."""
        self._memory = EquivalenceCache(self._cache)
        self._next_start = 0

    def begin(self, pod: Pod, group: CycleState | None = None) -> Attempt:
        """Start an attempt, reusing the valid verdicts of the last pod with the same signature."""
        verdicts = self._memory.get(self._sign(pod), self._next_start)
        verdicts.refresh()
        return Attempt(pod, CycleState(group, verdicts.shared), verdicts)

    def _sign(self, pod: Pod) -> Hashable | None:
        signature, nominations = self._framework.sign(pod), self._cache.nominations
        if signature is None or not nominations:
            return signature
        if nominations.node_of(pod.metadata.uid):
            return None
        return signature, pod.spec.priority or 0

    async def choose(self, attempt: Attempt) -> str:
        """Return the name of the node for the pod.

        Raises:
            Unschedulable: there is none.
            AttemptError: a plugin failed.
        """
        verdicts = attempt.verdicts
        while True:
            nodes = len(self._cache.nodes())
            if not nodes:
                raise Unschedulable(Diagnosis(0))
            self._prepare(attempt)
            wanted = feasible_nodes_wanted(nodes, self._percentage)
            passed = await self._feasible(attempt, wanted)
            if not (passed.names if passed is not None else verdicts.feasible):
                raise Unschedulable(self._diagnose(attempt, passed))
            name = self._best(attempt) if passed is None else await self._best_passed(attempt, passed)
            if verdicts.is_current(name):
                self._next_start += wanted
                return name
            # Nodes may have changed while other tasks ran.
            verdicts.refresh()
            attempt.state = CycleState(attempt.state.group, verdicts.shared)

    async def _feasible(self, attempt: Attempt, wanted: int) -> Passed | None:
        """Examine nodes, the nominated one first. With extenders, return those that they accept."""
        pod, verdicts = attempt.pod, attempt.verdicts
        nominated = self._cache.nominations.node_of(pod.metadata.uid)
        if nominated in verdicts.unknown:
            await self._examine(attempt, 1, nominated)
        if nominated in verdicts.feasible:
            if not self._extenders:
                return None
            with contextlib.suppress(ExtenderError):
                passed = await self._extenders.filter(pod, self._infos([nominated]))
                if passed.names:
                    return passed
        await self._examine(attempt, wanted)
        if not self._extenders:
            return None
        try:
            return await self._extenders.filter(pod, self._infos(verdicts.feasible))
        except ExtenderError as problem:
            raise AttemptError(str(problem)) from problem

    def _infos(self, names: Iterable[str]) -> list[NodeInfo]:
        return [info for name in names if (info := self._cache.node(name)) is not None]

    def _prepare(self, attempt: Attempt) -> None:
        pod, state = attempt.pod, attempt.state
        names, status = self._framework.pre_filter(state, pod)
        if status is not None:
            if not status.is_rejection:
                raise AttemptError(status.message)
            # PreFilter rejected the pod, so its status applies to every node.
            statuses = {info.name: status for info in self._cache.nodes()}
            plugins = {status.plugin}
            raise Unschedulable(
                Diagnosis(len(statuses), statuses, pre_filter=status.message, plugins=plugins)
            )
        if names is not None:
            attempt.verdicts.restrict(names)
        attempt.restricted = names is not None
        attempt.filters = self._framework.filters(state)
        attempt.scorers = self._framework.scorers(state, pod)
        attempt.verdicts.score_by(tuple(plugin.name for plugin, _ in attempt.scorers))

    def _diagnose(self, attempt: Attempt, passed: Passed | None) -> Diagnosis:
        statuses = dict(attempt.verdicts.failed)
        plugins = {status.plugin for status in statuses.values()}
        if passed is not None and attempt.verdicts.feasible:
            statuses |= passed.statuses
            plugins.add(EXTENDER)
        nodes = self._cache.nodes()
        if attempt.restricted:
            for info in nodes:
                if info.name not in attempt.verdicts.feasible:
                    statuses.setdefault(info.name, _FILTERED_OUT)
                    plugins.add(statuses[info.name].plugin)
        return Diagnosis(len(nodes), statuses, plugins=plugins)

    async def _examine(self, attempt: Attempt, wanted: int, only: str = "") -> None:
        pod, state, verdicts = attempt.pod, attempt.state, attempt.verdicts
        turn = self._clock.monotonic()
        nominations = self._cache.nominations
        while verdicts.unknown and len(verdicts.feasible) < wanted:
            name = only or next(iter(verdicts.unknown))
            del verdicts.unknown[name]
            node = self._cache.node(name)
            if node is None:
                continue
            state.sharing.allowed = True
            state.deadline.can_offload = True
            try:
                status = self._framework.filter_with_nominated_pods(
                    attempt.filters, state, pod, node, nominations.ahead_of(pod, name)
                )
            except Offload as offload:
                verdicts.unknown = {name: None, **verdicts.unknown}
                await self._run_offloaded(state, offload)
                turn = self._clock.monotonic()
                continue
            except BaseException:
                # Do not keep this attempt's state: the cached verdict on the node is used by later attempts.
                verdicts.unknown[name] = None
                raise
            finally:
                state.deadline.can_offload = False
            if status is None:
                scores = tuple([plugin.score(state, pod, node) for plugin, _ in attempt.scorers])
                verdicts.feasible.put(name, scores)
            elif status.code is Code.ERROR:
                verdicts.unknown[name] = None
                raise AttemptError(status.message)
            else:
                verdicts.failed[name] = status
                if not state.sharing.allowed:
                    # Examine the node again for the next pod, even if that has the same signature.
                    self._cache.touch(name)
            if only:
                return
            if self._clock.monotonic() - turn > _SLICE:
                await asyncio.sleep(0)
                turn = self._clock.monotonic()

    @staticmethod
    async def _run_offloaded(state: CycleState, offload: Offload) -> None:
        try:
            await asyncio.to_thread(offload.work)
        except asyncio.CancelledError:
            # The thread cannot be cancelled, but it checks the deadline regularly.
            state.deadline.cancel("the scheduler is stopping")
            raise

    def _best(self, attempt: Attempt) -> str:
        feasible, scorers = attempt.verdicts.feasible, attempt.scorers
        if len(feasible) == 1:
            return next(iter(feasible))
        if self._score_problem:
            raise AttemptError(self._score_problem)
        if not scorers:
            return self._rng.choice(list(feasible))
        if self._framework.is_normalizing(scorers):
            totals = self._framework.total(scorers, attempt.state, attempt.pod, feasible.scores)
            best = max(totals.values())
            return self._rng.choice([name for name, total in totals.items() if total == best])
        # Sum up each combination of scores once, because many nodes have the same one.
        weights = [weight for _, weight in scorers]
        sums = {scores: sum(map(mul, scores, weights)) for scores in feasible.names}
        best = max(sums.values())
        winners = [feasible.names[scores] for scores in sums if sums[scores] == best]
        place = self._rng.randrange(sum(map(len, winners)))
        return next(islice(chain.from_iterable(winners), place, None))

    async def _best_passed(self, attempt: Attempt, passed: Passed) -> str:
        """Return the best of the nodes that the extenders accept. Their scores are added to the plugins'."""
        if len(passed.names) == 1:
            return passed.names[0]
        if self._score_problem:
            raise AttemptError(self._score_problem)
        raw = {name: attempt.verdicts.feasible.scores[name] for name in passed.names}
        totals = self._framework.total(attempt.scorers, attempt.state, attempt.pod, raw)
        for name, score in (await self._extenders.scores(attempt.pod, self._infos(raw))).items():
            if name in totals:
                totals[name] += score
        best = max(totals.values())
        return self._rng.choice([name for name, total in totals.items() if total == best])


def feasible_nodes_wanted(nodes: int, percentage: int = 0) -> int:
    """Return the number of feasible nodes that is enough to choose among (numFeasibleNodesToFind)."""
    if nodes < _MIN_FEASIBLE:
        return nodes
    percentage = percentage or max(50 - nodes // 125, _MIN_PERCENTAGE)
    return max(nodes * percentage // 100, _MIN_FEASIBLE)
