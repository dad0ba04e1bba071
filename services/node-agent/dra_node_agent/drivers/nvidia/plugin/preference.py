"""The choice of devices that fit best together (internal/rm/allocate.go, and go-gpuallocator's best-effort policy)."""

import itertools
from collections.abc import Callable, Mapping, Sequence

from dra_node_agent.drivers.deviceplugin import AllocationError
from dra_node_agent.drivers.nvidia.plugin.config import PACKED
from dra_node_agent.drivers.nvidia.plugin.devicemap import Entry

# Compare at most this many sets of GPUs.
_MOST_SETS = 20_000
_CROSS_CPU, _SAME_CPU, _SAME_ROOT = 10, 20, 30


def choose_preferred(
    entries: Mapping[str, Entry], available: Sequence[str], required: Sequence[str], size: int, policy: str
) -> list[str]:
    """Return ``size`` of the available ids, including the required ones.

    Raises:
        AllocationError: there are not enough.
    """
    known = [id_ for id_ in available if id_ in entries]
    if all("::" not in id_ and ":" not in entries[id_].index for id_ in known):
        return _choose_aligned(entries, known, required, size)
    return _choose_greedily(entries, known, required, size, policy)


def _choose_aligned(
    entries: Mapping[str, Entry], available: Sequence[str], required: Sequence[str], size: int
) -> list[str]:
    """Choose whole GPUs that are close to each other."""
    must = [id_ for id_ in required if id_ in entries]
    rest = sorted((id_ for id_ in available if id_ not in must), key=lambda id_: int(entries[id_].index))
    needed = size - len(must)
    if needed < 0 or needed > len(rest):
        raise AllocationError("not enough available devices to satisfy allocation")
    sets = itertools.islice(itertools.combinations(rest, needed), _MOST_SETS)
    best = max(sets, key=lambda chosen: _closeness(entries, [*must, *chosen]))
    return [*must, *best]


def _closeness(entries: Mapping[str, Entry], ids: Sequence[str]) -> int:
    return sum(_link(entries[one], entries[other]) for one, other in itertools.combinations(ids, 2))


def _link(one: Entry, other: Entry) -> int:
    if one.gpu.pcie_root is not None and one.gpu.pcie_root == other.gpu.pcie_root:
        return _SAME_ROOT
    return _SAME_CPU if one.gpu.numa_node == other.gpu.numa_node else _CROSS_CPU


def _choose_greedily(
    entries: Mapping[str, Entry], available: Sequence[str], required: Sequence[str], size: int, policy: str
) -> list[str]:
    """Choose replicas and MIG devices one at a time, from the GPU with the fewest or with the most in use."""
    candidates = [id_ for id_ in available if id_ not in required]
    needed = size - len(required)
    if len(candidates) < needed:
        raise AllocationError("not enough available devices to satisfy allocation")
    total: dict[str, int] = {}
    for entry in entries.values():
        total[entry.uuid] = total.get(entry.uuid, 0) + 1
    taken = dict(total)
    for id_ in candidates:
        taken[entries[id_].uuid] -= 1
    picked: dict[str, int] = {}
    rank: Callable[[str], int] = (
        (lambda uuid: -taken[uuid]) if policy == PACKED else (lambda uuid: taken[uuid])
    )
    chosen: list[str] = []
    for _ in range(needed):
        best = min(candidates, key=lambda id_: (rank(entries[id_].uuid), picked.get(entries[id_].uuid, 0)))
        uuid = entries[best].uuid
        taken[uuid] += 1
        picked[uuid] = picked.get(uuid, 0) + 1
        candidates.remove(best)
        chosen.append(best)
    return [*required, *chosen]
