"""The topology manager: places a container's devices on one NUMA node or few (pkg/kubelet/cm/topologymanager).

Its scope is the container. The only provider of hints is the device manager.
"""

import asyncio
import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from dra_shared.api.container import Container
from dra_shared.api.pod import Pod

from dra_node_agent.kubelet.admission import Allocate, Rejected, admit_allocated
from dra_node_agent.kubelet.devicemanager.topologyhints import Hints
from dra_node_agent.kubelet.topologypolicies import BEST_EFFORT, NONE, SINGLE_NUMA_NODE

_Mask = frozenset[int]


@dataclass(frozen=True)
class _Hint:
    """A set of NUMA nodes. None stands for any."""

    nodes: _Mask | None
    preferred: bool


@dataclass(frozen=True)
class _Merged:
    nodes: _Mask
    preferred: bool


class TopologyManager:
    """Admits the pods of one node according to ``policy``. ``hints`` returns the hints for one container."""

    def __init__(
        self, policy: str, numa_nodes: Sequence[int], hints: Callable[[Pod, Container], Hints]
    ) -> None:
        self._policy = policy
        self._machine = frozenset(numa_nodes)
        self._hints = hints
        self._turn = asyncio.Lock()
        self._affinities: dict[tuple[str, str], _Mask | None] = {}

    def affinity(self, pod_uid: str, container: str) -> Collection[int] | None:
        """Return the NUMA nodes for the container's devices, or None for any."""
        return self._affinities.get((pod_uid, container))

    async def admit(self, pod: Pod, allocate: Allocate) -> None:
        """Choose NUMA nodes for each container and allocate its devices, init containers first.

        Raises:
            Rejected: the policy rejects the pod, or a container cannot have its devices.
        """

        async def align_and_allocate(pod: Pod, container: Container) -> None:
            self._align(pod, container)
            await allocate(pod, container)

        if self._policy == NONE:
            await admit_allocated(pod, allocate)
            return
        # The free devices must not change between the choice of NUMA nodes and that of devices.
        async with self._turn:
            await admit_allocated(pod, align_and_allocate)

    def keep(self, pod_uids: Collection[str]) -> None:
        """Drop the NUMA affinities of all pods except these."""
        self._affinities = {key: nodes for key, nodes in self._affinities.items() if key[0] in pod_uids}

    def _align(self, pod: Pod, container: Container) -> None:
        hints = _filter_hints(self._hints(pod, container))
        if self._policy == SINGLE_NUMA_NODE:
            hints = [_single(choices) for choices in hints]
        best = _merge(self._machine, hints)
        nodes: _Mask | None = best.nodes
        if self._policy == SINGLE_NUMA_NODE and nodes == self._machine:
            nodes = None
        if self._policy != BEST_EFFORT and not best.preferred:
            raise Rejected("TopologyAffinityError", "Resources cannot be allocated with Topology locality")
        self._affinities[pod.metadata.uid, container.name] = nodes


def _filter_hints(hints: Hints) -> list[list[_Hint]]:
    """Return the choices for each resource (``filterProvidersHints``)."""
    if not hints:
        return [[_Hint(None, True)]]
    choices = []
    for found in hints.values():
        if found is None:
            choices.append([_Hint(None, True)])
        elif not found:
            choices.append([_Hint(None, False)])
        else:
            choices.append([_Hint(frozenset(hint.numa_nodes), hint.preferred) for hint in found])
    return choices


def _single(choices: Iterable[_Hint]) -> list[_Hint]:
    """Return the choices with a single NUMA node, or any (``filterSingleNumaHints``)."""
    return [hint for hint in choices if hint.preferred and (hint.nodes is None or len(hint.nodes) == 1)]


def _merge(machine: _Mask, hints: Sequence[Sequence[_Hint]]) -> _Merged:
    """Return the best of all combinations (``HintMerger.Merge``)."""
    wanted = max(
        (
            min((len(hint.nodes) for hint in choices if hint.nodes is not None), default=0)
            for choices in hints
        ),
        default=0,
    )
    best: _Merged | None = None
    for combination in itertools.product(*hints):
        candidate = _combine(machine, combination)
        if candidate.nodes:
            best = candidate if best is None else _better(best, candidate, wanted)
    return best or _Merged(machine, False)


def _combine(machine: _Mask, combination: Sequence[_Hint]) -> _Merged:
    masks = [hint.nodes for hint in combination if hint.nodes is not None]
    same = all(mask == masks[0] for mask in masks)
    return _Merged(machine.intersection(*masks), same and all(hint.preferred for hint in combination))


def _better(current: _Merged, candidate: _Merged, wanted: int) -> _Merged:
    """Return the better hint: preferred, or else closer to ``wanted`` NUMA nodes (``HintMerger.compare``)."""
    if current.preferred != candidate.preferred:
        return candidate if candidate.preferred else current
    has, offers = len(current.nodes), len(candidate.nodes)
    if current.preferred or has > wanted or has == offers:
        return _narrower(current, candidate)
    if has == wanted or offers > wanted:
        return current
    return candidate if offers > has else current


def _narrower(current: _Merged, candidate: _Merged) -> _Merged:
    """Return the hint with fewer NUMA nodes; of equally many, the one with lower numbers."""

    def width(merged: _Merged) -> tuple[int, int]:
        return len(merged.nodes), sum(1 << node for node in merged.nodes)

    return candidate if width(candidate) < width(current) else current
