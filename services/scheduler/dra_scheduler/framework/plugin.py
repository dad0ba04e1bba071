"""The extension points, under their upstream names.

A plugin has the methods of the extension points that it implements. Mirrors the interfaces of upstream's
``k8s.io/kube-scheduler/framework``.
"""

from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from dra_shared.api.pod import Pod

from dra_scheduler.framework.events import Interest
from dra_scheduler.framework.groupattempt import GroupAttempt
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Status

MAX_NODE_SCORE = 100


class Plugin(Protocol):
    """The interface of all plugins."""

    @property
    def name(self) -> str:
        """The name of the plugin upstream."""
        ...


@runtime_checkable
class QueueSortPlugin(Plugin, Protocol):
    """Orders the active queue."""

    def key(self, pod: Pod, since: datetime, order: int) -> tuple[int, datetime, int]: ...


@runtime_checkable
class PreEnqueuePlugin(Plugin, Protocol):
    """Called before a pod enters the active queue."""

    def pre_enqueue(self, pod: Pod) -> Status | None: ...


@runtime_checkable
class EnqueueExtensions(Plugin, Protocol):
    """Registers the events after which a pod that the plugin rejected is worth another attempt."""

    def events_to_register(self) -> Sequence[Interest]: ...


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol):
    """Called before any node is examined. It may limit the nodes, skip Filter, or reject the pod."""

    def pre_filter(self, state: CycleState, pod: Pod) -> tuple[frozenset[str] | None, Status | None]: ...


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    """Decides whether a node can take the pod."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None: ...


@runtime_checkable
class CountingPlugin(Plugin, Protocol):
    """Counts pods of many nodes in PreFilter.

    ``count`` adjusts the state as if the pod ``other`` were added to a node or removed from it.
    """

    def count(self, state: CycleState, pod: Pod, other: Pod, node: NodeInfo, change: int) -> None: ...


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol):
    """Called if no node can take the pod.

    Returns the node that the pod is nominated for (empty for none, None for no change), and a status.
    """

    async def post_filter(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[str | None, Status]: ...


@runtime_checkable
class GroupPostFilterPlugin(Plugin, Protocol):
    """Called if a group of pods did not get enough nodes (since Kubernetes 1.37).

    Returns the nodes that pods are nominated for, by pod uid, and a status.
    """

    async def group_post_filter(self, attempt: GroupAttempt) -> tuple[Mapping[str, str], Status]: ...


@runtime_checkable
class PreScorePlugin(Plugin, Protocol):
    """Called before nodes are scored. It may skip Score."""

    def pre_score(self, state: CycleState, pod: Pod) -> Status | None: ...


@runtime_checkable
class ScorePlugin(Plugin, Protocol):
    """Scores the nodes that can take the pod."""

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int: ...


@runtime_checkable
class NormalizingPlugin(ScorePlugin, Protocol):
    """A score plugin whose raw scores are only meaningful relative to each other."""

    def normalize(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> dict[str, int]: ...


@runtime_checkable
class SkippingPlugin(ScorePlugin, Protocol):
    """A score plugin that is left out if it would score all nodes equally.

    Upstream calls the plugin in that case, too.
    """

    def skips_score(self, state: CycleState, pod: Pod) -> bool: ...


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    """Reserves resources that the pod will use on its node, and releases them if the attempt fails."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None: ...

    async def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None: ...


@runtime_checkable
class ForgettingPlugin(ReservePlugin, Protocol):
    """A Reserve plugin whose reservation can be undone in memory, without a request, after a trial."""

    def forget(self, state: CycleState) -> None: ...


@runtime_checkable
class NodeStatusPlugin(ReservePlugin, Protocol):
    """A Reserve plugin that decides about additional node resources which the pod uses, for the pod's status."""

    def with_node_statuses(self, state: CycleState, pod: Pod) -> Pod: ...


@runtime_checkable
class PreBindPlugin(Plugin, Protocol):
    """Prepares the pod before it is bound.

    If ``pre_binds_in_parallel`` is true, the plugin runs in parallel with others (upstream's AllowParallel).
    """

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None: ...

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None: ...


@runtime_checkable
class BindPlugin(Plugin, Protocol):
    """Binds the pod to the node."""

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None: ...


@runtime_checkable
class SignPlugin(Plugin, Protocol):
    """Signs pods. Pods with equal signatures get equal verdicts on an unchanged node.

    ``sign`` returns None if the verdicts depend on several nodes at once and cannot be shared. A plugin that
    never reads the pod needs no signature. If any other plugin lacks this method, no verdicts are shared.
    """

    def sign(self, pod: Pod) -> Hashable | None: ...


# The extension points of a profile that our plugins can implement.
_PROTOCOLS: Mapping[str, type] = {
    "queueSort": QueueSortPlugin,
    "preEnqueue": PreEnqueuePlugin,
    "preFilter": PreFilterPlugin,
    "filter": FilterPlugin,
    "postFilter": PostFilterPlugin,
    "preScore": PreScorePlugin,
    "score": ScorePlugin,
    "reserve": ReservePlugin,
    "preBind": PreBindPlugin,
    "bind": BindPlugin,
}


def extension_points(plugin: type[Plugin]) -> frozenset[str]:
    """Return the extension points that a plugin's class implements.

    A class attribute ``upstream_points`` adds those of upstream's plugin that have no method in ours.
    """
    implemented = {
        point
        for point, protocol in _PROTOCOLS.items()
        if all(hasattr(plugin, method) for method in _methods(protocol))
    }
    return frozenset({*implemented, *getattr(plugin, "upstream_points", ())})


def _methods(protocol: type) -> list[str]:
    return [name for name, value in vars(protocol).items() if callable(value) and not name.startswith("_")]


def default_normalize(scores: Mapping[str, int], *, reverse: bool = False) -> dict[str, int]:
    """Scale the scores so that the highest becomes 100 (upstream's helper.DefaultNormalizeScore)."""
    highest = max(scores.values(), default=0)
    if highest == 0:
        return {name: MAX_NODE_SCORE if reverse else score for name, score in scores.items()}
    scaled = {name: MAX_NODE_SCORE * score // highest for name, score in scores.items()}
    return {name: MAX_NODE_SCORE - score for name, score in scaled.items()} if reverse else scaled
