"""The extension points, under their upstream names; a plugin has the methods of those that it implements.

Mirrors the interfaces of upstream's ``k8s.io/kube-scheduler/framework``.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from dra_shared.api.pod import Pod

from dra_scheduler.framework.events import Interest
from dra_scheduler.framework.groupattempt import GroupAttempt
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Status

MAX_NODE_SCORE = 100


class Plugin(Protocol):
    """What all plugins have."""

    @property
    def name(self) -> str:
        """The upstream name."""
        ...


@runtime_checkable
class PreEnqueuePlugin(Plugin, Protocol):
    """Asked before a pod gets into the active queue."""

    def pre_enqueue(self, pod: Pod) -> Status | None: ...


@runtime_checkable
class EnqueueExtensions(Plugin, Protocol):
    """Says which events make pods worth another try that it rejected."""

    def events_to_register(self) -> Sequence[Interest]: ...


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol):
    """Looks at the pod before any node: may name the only nodes in question, skip Filter, or reject the pod."""

    def pre_filter(self, state: CycleState, pod: Pod) -> tuple[frozenset[str] | None, Status | None]: ...


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    """Says whether a node can take the pod."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None: ...


@runtime_checkable
class CountingPlugin(Plugin, Protocol):
    """Counts pods of many nodes in PreFilter; Filter may be asked what would be if ``other`` came or went."""

    def count(self, state: CycleState, pod: Pod, other: Pod, node: NodeInfo, change: int) -> None: ...


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol):
    """Called when no node can take the pod.

    Returns the node that the pod is nominated for from now on, empty for none, None for no change, and a status.
    """

    async def post_filter(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[str | None, Status]: ...


@runtime_checkable
class GroupPostFilterPlugin(Plugin, Protocol):
    """Called when a group of pods did not get enough nodes (since Kubernetes 1.37).

    Returns the nodes that pods are nominated for, by their uids, and a status.
    """

    async def group_post_filter(self, attempt: GroupAttempt) -> tuple[Mapping[str, str], Status]: ...


@runtime_checkable
class ScorePlugin(Plugin, Protocol):
    """Rates the nodes that can take the pod. ``pre_score`` may skip that."""

    def pre_score(self, state: CycleState, pod: Pod) -> Status | None: ...

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int: ...


@runtime_checkable
class NormalizingPlugin(ScorePlugin, Protocol):
    """A score plugin whose raw scores only mean something relative to each other."""

    def normalize(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> dict[str, int]: ...


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    """Takes what the pod will use on its node, and gives it back if that comes to nothing."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None: ...

    async def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None: ...


@runtime_checkable
class ForgettingPlugin(ReservePlugin, Protocol):
    """A Reserve plugin whose reservation a trial can take back: in memory, without a request."""

    def forget(self, state: CycleState) -> None: ...


@runtime_checkable
class NodeStatusPlugin(ReservePlugin, Protocol):
    """A Reserve plugin that decides what else the pod takes from its node."""

    def with_node_statuses(self, state: CycleState, pod: Pod) -> Pod: ...


@runtime_checkable
class PreBindPlugin(Plugin, Protocol):
    """Does what has to be done before the pod is bound.

    With a true ``pre_binds_in_parallel`` it does not wait for other plugins (upstream's AllowParallel).
    """

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None: ...

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None: ...


@runtime_checkable
class BindPlugin(Plugin, Protocol):
    """Binds the pod to the node."""

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None: ...


@runtime_checkable
class SignPlugin(Plugin, Protocol):
    """Signs pods: pods of equal signature get equal verdicts on an unchanged node.

    ``sign`` returns None if the verdicts on the pod depend on several nodes at once and can't be shared. Plugins that
    never look at the pod need no signature; any other plugin without this method prevents sharing.
    """

    def sign(self, pod: Pod) -> Hashable | None: ...


def default_normalize(scores: Mapping[str, int], *, reverse: bool = False) -> dict[str, int]:
    """Scores scaled so that the highest becomes 100 (upstream's helper.DefaultNormalizeScore)."""
    highest = max(scores.values(), default=0)
    if highest == 0:
        return {name: MAX_NODE_SCORE if reverse else score for name, score in scores.items()}
    scaled = {name: MAX_NODE_SCORE * score // highest for name, score in scores.items()}
    return {name: MAX_NODE_SCORE - score for name, score in scaled.items()} if reverse else scaled
