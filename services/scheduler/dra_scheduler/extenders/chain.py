"""All extenders of a configuration, in the order in which they are called.

Mirrors ``findNodesThatPassExtenders``, ``prioritizeNodes`` and ``extendersBinding`` in upstream's
``pkg/scheduler/schedule_one.go``, and ``callExtenders`` in ``pkg/scheduler/framework/preemption/preemption.go``.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dra_shared.api.pod import Pod
from dra_shared.log import logger
from dra_shared.quoting import go_quote

from dra_scheduler.componentconfig.types import Extender
from dra_scheduler.extenders.client import ExtenderError, HTTPExtender, Victims
from dra_scheduler.framework.events import Action, Interest, Kind
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.status import Status, error, unresolvable, unschedulable

EXTENDER = "Extender"
"""The plugin name for pods that extenders rejected. Any change in the cluster causes a retry."""
INTERESTS = tuple(Interest(kind, Action.ADD | Action.UPDATE | Action.DELETE) for kind in Kind)

# An extender's scores are at most 10, a plugin's at most 100.
_SCALE = 10

_log = logger(__name__)


@dataclass(slots=True)
class Passed:
    """The nodes that all extenders accept, and the reasons against the others."""

    names: list[str]
    statuses: dict[str, Status] = field(default_factory=dict)


class Extenders:
    """The extenders of a configuration. Ignorable extenders are called last."""

    def __init__(self, configs: Sequence[Extender] = ()) -> None:
        every = [HTTPExtender(config) for config in configs]
        self._all = sorted(every, key=lambda extender: extender.ignorable)

    def __bool__(self) -> bool:
        return bool(self._all)

    def prioritizes(self, pod: Pod) -> bool:
        """True if an extender scores nodes for the pod."""
        return any(extender.prioritizes and extender.is_interested_in(pod) for extender in self._all)

    def filter_names(self, pod: Pod) -> tuple[str, ...]:
        """Return the names of the extenders that would filter nodes for the pod."""
        return tuple(each.name for each in self._all if each.filters and each.is_interested_in(pod))

    async def filter(self, pod: Pod, nodes: Sequence[NodeInfo]) -> Passed:
        """Call one extender after the other to filter the nodes.

        Raises:
            ExtenderError: an extender that is not ignorable failed.
        """
        by_name = {node.name: node for node in nodes}
        passed = Passed(list(by_name))
        for extender in self._all:
            if not passed.names:
                break
            if not extender.filters or not extender.is_interested_in(pod):
                continue
            try:
                found = await extender.filter(pod, [by_name[name] for name in passed.names])
            except ExtenderError as problem:
                if not extender.ignorable:
                    raise
                _log.info("extender ignored", extender=extender.name, error=str(problem))
                continue
            passed.statuses |= {name: unschedulable(text).of(EXTENDER) for name, text in found.failed.items()}
            passed.statuses |= {
                name: unresolvable(text).of(EXTENDER) for name, text in found.unresolvable.items()
            }
            passed.names = [name for name in found.names if name in by_name]
        return passed

    async def scores(self, pod: Pod, nodes: Sequence[NodeInfo]) -> dict[str, int]:
        """Return the sum of the extenders' scores for each node, on the plugins' scale.

        An extender that fails gives every node 0.
        """
        asked = [one for one in self._all if one.prioritizes and one.is_interested_in(pod)]
        answers = await asyncio.gather(*(self._scores(extender, pod, nodes) for extender in asked))
        totals: dict[str, int] = {}
        for scores in answers:
            for name, score in scores.items():
                totals[name] = totals.get(name, 0) + score * _SCALE
        return totals

    async def _scores(self, extender: HTTPExtender, pod: Pod, nodes: Sequence[NodeInfo]) -> dict[str, int]:
        try:
            return await extender.prioritize(pod, nodes)
        except ExtenderError as problem:
            _log.info("no scores of extender", extender=extender.name, pod=pod.key, error=str(problem))
            return {}

    async def bind(self, pod: Pod, node_name: str) -> tuple[bool, Status | None]:
        """Return True if an extender is responsible for binding the pod, and the error if it failed."""
        for extender in self._all:
            if not extender.binds or not extender.is_interested_in(pod):
                continue
            try:
                await extender.bind(pod, node_name)
            except ExtenderError as problem:
                if extender.ignorable:
                    _log.info("extender ignored", extender=extender.name, error=str(problem))
                    continue
                return True, error(problem)
            return True, None
        return False, None

    async def preempt(
        self, pod: Pod, victims: Mapping[str, Victims], nodes: Mapping[str, NodeInfo]
    ) -> dict[str, Victims]:
        """Call one extender after the other to choose among the nodes and victims.

        Raises:
            ExtenderError: an extender that is not ignorable failed or named a node without a victim.
        """
        left = dict(victims)
        for extender in self._all:
            if not extender.preempts or not extender.is_interested_in(pod):
                continue
            try:
                found = await extender.preempt(pod, left, nodes)
                left = _with_victims(extender, found)
            except ExtenderError as problem:
                if not extender.ignorable:
                    raise
                _log.info("extender ignored", extender=extender.name, error=str(problem))
            if not left:
                break
        return left

    async def aclose(self) -> None:
        """Close all connections."""
        for extender in self._all:
            await extender.aclose()


def _with_victims(extender: HTTPExtender, found: Mapping[str, Victims]) -> dict[str, Victims]:
    for name, victims in found.items():
        if not victims.pods and not extender.ignorable:
            raise ExtenderError(f"expected at least one victim pod on node {go_quote(name)}")
    return {name: victims for name, victims in found.items() if victims.pods}
