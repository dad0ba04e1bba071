"""The framework: runs the plugins of each extension point in order.

Mirrors upstream's ``pkg/scheduler/framework/runtime/framework.go``. Plugins run in the order of the profile, and
the first that rejects decides the message; Unreserve runs in the reverse order.
"""

import asyncio
from collections.abc import Hashable, Mapping, Sequence

from dra_shared.api.pod import Pod

from dra_scheduler.framework.events import Action, Interest, Kind
from dra_scheduler.framework.groupattempt import GroupAttempt
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.plugin import (
    BindPlugin,
    CountingPlugin,
    EnqueueExtensions,
    FilterPlugin,
    ForgettingPlugin,
    GroupPostFilterPlugin,
    NodeStatusPlugin,
    NormalizingPlugin,
    Plugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    SignPlugin,
    SkippingPlugin,
)
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Code, Status, error
from dra_scheduler.framework.unprepared import Unprepared, needs_pre_filter, score_problem


class Framework:
    """The plugins of one profile. ``weights`` are the weights of score plugins, for those that are not 1.

    ``points`` has the plugin names of each extension point, in order. Without it, each plugin runs at all
    points that it implements, in the order of ``plugins``.
    """

    def __init__(
        self,
        plugins: Sequence[Plugin],
        weights: Mapping[str, int] | None = None,
        points: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.plugins = tuple(plugins)
        self._weights = dict(weights or {})
        self._points = points
        self._pre_enqueue = [p for p in self._of("preEnqueue") if isinstance(p, PreEnqueuePlugin)]
        self._pre_filters = [p for p in self._of("preFilter") if isinstance(p, PreFilterPlugin)]
        self._filters = [p for p in self._with_placeholders("filter") if isinstance(p, FilterPlugin)]
        self._post_filters = [p for p in self._of("postFilter") if isinstance(p, PostFilterPlugin)]
        self._group_post_filters = [p for p in self._of("postFilter") if isinstance(p, GroupPostFilterPlugin)]
        self._scores = [p for p in self._of("score") if isinstance(p, ScorePlugin)]
        self._reserves = [p for p in self._with_placeholders("reserve") if isinstance(p, ReservePlugin)]
        self._pre_binds = [p for p in self._of("preBind") if isinstance(p, PreBindPlugin)]
        self._parallel = [p for p in self._pre_binds if getattr(p, "pre_binds_in_parallel", False)]
        self._in_turn = [p for p in self._pre_binds if p not in self._parallel]
        self._binds = [p for p in self._of("bind") if isinstance(p, BindPlugin)]
        judges = list({p.name: p for p in (*self._filters, *self._scores)}.values())
        self._signers = [p for p in judges if isinstance(p, SignPlugin)]
        self._signable = len(self._signers) == len(judges)
        self._counting = [p for p in self._pre_filters if isinstance(p, CountingPlugin)]
        self._pre_scores = {p.name: p for p in self._scores if isinstance(p, PreScorePlugin)}
        self._skipping = {p.name: p for p in self._scores if isinstance(p, SkippingPlugin)}
        self._normalizing = {p.name: p for p in self._scores if isinstance(p, NormalizingPlugin)}

    def _of(self, point: str) -> Sequence[Plugin]:
        """Return the extension point's plugins. Some of them may not implement it."""
        if self._points is None:
            return self.plugins
        by_name = {plugin.name: plugin for plugin in self.plugins}
        return [by_name[name] for name in self._points.get(point, ()) if name in by_name]

    def _with_placeholders(self, point: str) -> Sequence[Plugin]:
        """Return the extension point's plugins.

        Plugins that need their PreFilter are replaced by ``Unprepared`` if it is disabled.
        """
        prepared = {plugin.name for plugin in self._of("preFilter")}
        return [
            Unprepared(plugin.name)
            if needs_pre_filter(plugin.name) and plugin.name not in prepared
            else plugin
            for plugin in self._of(point)
        ]

    # The queue

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Run PreEnqueue. Return a status if the pod may not enter the active queue."""
        for plugin in self._pre_enqueue:
            status = plugin.pre_enqueue(pod)
            if status is not None:
                return status.of(plugin.name)
        return None

    def interests(self) -> dict[str, Sequence[Interest]]:
        """Return the events that each plugin is interested in."""
        return {
            p.name: _with_taints(p.events_to_register())
            for p in self.plugins
            if isinstance(p, EnqueueExtensions)
        }

    def sign(self, pod: Pod) -> Hashable | None:
        """Return the pod's equivalence signature, or None if the pod cannot share verdicts."""
        if not self._signable:
            return None
        parts = []
        for plugin in self._signers:
            part = plugin.sign(pod)
            if part is None:
                return None
            parts.append(part)
        return tuple(parts)

    # The scheduling cycle

    def pre_filter(self, state: CycleState, pod: Pod) -> tuple[frozenset[str] | None, Status | None]:
        """Run PreFilter. Return the only nodes to consider (None: all), and a status if the pod is rejected."""
        names: frozenset[str] | None = None
        for plugin in self._pre_filters:
            allowed, status = plugin.pre_filter(state, pod)
            if status is not None:
                if status.code is Code.SKIP:
                    state.skip_filter.add(plugin.name)
                    continue
                if not status.is_rejection:
                    return None, error(f'running PreFilter plugin "{plugin.name}": {status.message}').of(
                        plugin.name
                    )
                return None, status.of(plugin.name)
            if allowed is not None:
                names = allowed if names is None else names & allowed
        return names, None

    def filters(self, state: CycleState) -> list[FilterPlugin]:
        """Return the filter plugins that did not skip the pod."""
        return [plugin for plugin in self._filters if plugin.name not in state.skip_filter]

    @staticmethod
    def objections(
        plugins: Sequence[FilterPlugin], state: CycleState, pod: Pod, node: NodeInfo
    ) -> dict[str, Status]:
        """Return every plugin's objection to the node, by plugin name."""
        found = ((plugin.name, plugin.filter(state, pod, node)) for plugin in plugins)
        return {name: status for name, status in found if status is not None}

    @staticmethod
    def filter(plugins: Sequence[FilterPlugin], state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Return the first plugin's objection to the node, or None."""
        for plugin in plugins:
            status = plugin.filter(state, pod, node)
            if status is not None:
                if not status.is_rejection:
                    return error(f'running "{plugin.name}" filter plugin: {status.message}').of(plugin.name)
                return status.of(plugin.name)
        return None

    def filter_with_nominated_pods(
        self,
        plugins: Sequence[FilterPlugin],
        state: CycleState,
        pod: Pod,
        node: NodeInfo,
        nominated: Sequence[Pod],
    ) -> Status | None:
        """Run the filters with and without the nominated pods, because those may be scheduled elsewhere in the end."""
        if nominated:
            crowded = node.copy()
            for other in nominated:
                self.add_pod(state, pod, other, crowded)
            try:
                status = self.filter(plugins, state, pod, crowded)
            finally:
                for other in nominated:
                    self.remove_pod(state, pod, other, crowded)
            if status is not None:
                return status
        return self.filter(plugins, state, pod, node)

    def add_pod(self, state: CycleState, pod: Pod, other: Pod, node: NodeInfo) -> None:
        """Make the filters judge ``pod`` as if ``other`` were on ``node``, which is a copy."""
        node.add_pod(other)
        for plugin in self._counting:
            if plugin.name not in state.skip_filter:
                plugin.count(state, pod, other, node, 1)

    def remove_pod(self, state: CycleState, pod: Pod, other: Pod, node: NodeInfo) -> None:
        """Make the filters judge ``pod`` as if ``other`` had left ``node``, which is a copy."""
        node.remove_pod(other.metadata.uid)
        for plugin in self._counting:
            if plugin.name not in state.skip_filter:
                plugin.count(state, pod, other, node, -1)

    async def post_filter(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[str | None, Status]:
        """Run the PostFilter plugins for a pod that no node can take, until one succeeds or fails.

        Return the node that the pod is nominated for (see :class:`PostFilterPlugin`), and the plugins'
        reasons.
        """
        reasons: list[str] = []
        nominated: str | None = None
        for plugin in self._post_filters:
            result, status = await plugin.post_filter(state, pod, statuses)
            nominated = nominated if result is None else result
            if status.code is Code.SUCCESS or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return nominated, status.of(plugin.name)
            if not status.is_rejection:
                return nominated, status.of(plugin.name)
            reasons += status.reasons
        return nominated, Status(Code.UNSCHEDULABLE, tuple(reasons))

    async def group_post_filter(self, attempt: GroupAttempt) -> tuple[Mapping[str, str], Status]:
        """Run the PostFilter plugins for a group. Return the nominated nodes by pod uid, and a status."""
        reasons: list[str] = []
        for plugin in self._group_post_filters:
            nominated, status = await plugin.group_post_filter(attempt)
            if status.code is Code.SUCCESS or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return nominated, status.of(plugin.name)
            if not status.is_rejection:
                return nominated, status.of(plugin.name)
            reasons += status.reasons
        return {}, Status(Code.UNSCHEDULABLE, tuple(reasons))

    @property
    def score_problem(self) -> str:
        """The error of a score plugin that fails because its PreScore is disabled, or an empty string."""
        prepared = {plugin.name for plugin in self._of("preScore")}
        problems = (score_problem(p.name) for p in self._scores if p.name not in prepared)
        return next(filter(None, problems), "")

    def scorers(self, state: CycleState, pod: Pod) -> list[tuple[ScorePlugin, int]]:
        """Return the score plugins that matter for the pod, with their weights."""
        found = []
        for plugin in self._scores:
            preparing, skipping = self._pre_scores.get(plugin.name), self._skipping.get(plugin.name)
            if preparing is not None and preparing.pre_score(state, pod) is not None:
                continue
            if skipping is None or not skipping.skips_score(state, pod):
                found.append((plugin, self._weights.get(plugin.name, 1)))
        return found

    def is_normalizing(self, scorers: Sequence[tuple[ScorePlugin, int]]) -> bool:
        """True if the scores of a node depend on those of other nodes."""
        return any(plugin.name in self._normalizing for plugin, _ in scorers)

    def total(
        self,
        scorers: Sequence[tuple[ScorePlugin, int]],
        state: CycleState,
        pod: Pod,
        raw: Mapping[str, tuple[int, ...]],
    ) -> dict[str, int]:
        """Return each node's weighted sum of normalized scores. ``raw`` has the scores of all plugins by node."""
        totals = dict.fromkeys(raw, 0)
        for index, (plugin, weight) in enumerate(scorers):
            scores = {name: values[index] for name, values in raw.items()}
            normalizing = self._normalizing.get(plugin.name)
            if normalizing is not None:
                scores = normalizing.normalize(state, pod, scores)
            for name, score in scores.items():
                totals[name] += weight * score
        return totals

    # Reserving and binding

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Run Reserve of every plugin. Return the status of the first one that fails."""
        for plugin in self._reserves:
            status = plugin.reserve(state, pod, node_name)
            if status is not None:
                if not status.is_rejection:
                    return error(f'running Reserve plugin "{plugin.name}": {status.message}').of(plugin.name)
                return status.of(plugin.name)
        return None

    async def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Run Unreserve of the plugins in reverse order."""
        for plugin in reversed(self._reserves):
            await plugin.unreserve(state, pod, node_name)

    def forget(self, state: CycleState) -> None:
        """Undo :meth:`reserve` of a trial in reverse order. Nothing is written."""
        for plugin in reversed(self._reserves):
            if isinstance(plugin, ForgettingPlugin):
                plugin.forget(state)

    def with_node_statuses(self, state: CycleState, pod: Pod) -> Pod:
        """Return the pod with the node resources that Reserve assigned to it."""
        for plugin in self._reserves:
            if isinstance(plugin, NodeStatusPlugin):
                pod = plugin.with_node_statuses(state, pod)
        return pod

    def needs_pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> bool:
        """True if a plugin has work to do before binding, which may take a while."""
        return any(plugin.pre_bind_pre_flight(state, pod, node_name) is None for plugin in self._pre_binds)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Run PreBind of all plugins. If one fails, the others are cancelled."""
        parallel = [p for p in self._parallel if p.pre_bind_pre_flight(state, pod, node_name) is None]
        if not parallel:
            return await self._pre_bind_in_turn(self._in_turn, state, pod, node_name)
        tasks = [
            asyncio.ensure_future(self._pre_bind_in_turn(plugins, state, pod, node_name))
            for plugins in (*([plugin] for plugin in parallel), self._in_turn)
        ]
        try:
            for done in asyncio.as_completed(tasks):
                status = await done
                if status is not None:
                    return status
            return None
        except asyncio.CancelledError as cancelled:
            if not cancelled.args:
                raise
            for task in tasks:
                task.cancel(cancelled.args[0])
            return next(filter(None, await asyncio.gather(*tasks)), None)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @staticmethod
    async def _pre_bind_in_turn(
        plugins: Sequence[PreBindPlugin], state: CycleState, pod: Pod, node_name: str
    ) -> Status | None:
        for plugin in plugins:
            flight = plugin.pre_bind_pre_flight(state, pod, node_name)
            if flight is not None and flight.code is Code.SKIP:
                continue
            try:
                status = flight or await plugin.pre_bind(state, pod, node_name)
            except asyncio.CancelledError as cancelled:
                if not cancelled.args:
                    raise
                # Cancelled with a reason: a preemption ended only this binding, not the scheduler.
                status = error(cancelled.args[0])
            if status is not None:
                if status.is_rejection:
                    return status.of(plugin.name)
                return error(f'running PreBind plugin "{plugin.name}": {status.message}').of(plugin.name)
        return None

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Bind the pod with the first plugin that does not skip it."""
        for plugin in self._binds:
            status = await plugin.bind(state, pod, node_name)
            if status is None:
                return None
            if status.code is not Code.SKIP:
                return error(f'running Bind plugin "{plugin.name}": {status.message}').of(plugin.name)
        return error("no bind plugin took the pod")


def _with_taints(interests: Sequence[Interest]) -> Sequence[Interest]:
    """Add taint changes to the interests of plugins that wait for new nodes (kubernetes/kubernetes#109437)."""
    actions = [interest.action for interest in interests if interest.kind is Kind.NODE]
    if any(Action.ADD in a for a in actions) and not any(Action.NODE_TAINT in a for a in actions):
        return (*interests, Interest(Kind.NODE, Action.NODE_TAINT))
    return interests
