"""Rolling updates of groups: the partition of the leaders' StatefulSet, and its replicas.

Mirrors rollingUpdateParameters in pkg/controllers/leaderworkerset_controller.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dra_shared.api.apps import StatefulSet
from dra_shared.jsontypes import JsonObject

from dra_controller.jobkinds.leaderworkerset.sets import REPLICAS, rolling_update, surge, unavailable


@dataclass(frozen=True)
class Group:
    """The state of a group. It is updated if leader and workers have the newest revision."""

    ready: bool = False
    updated: bool = False


def plan_rollout(
    spec: JsonObject, leaders: StatefulSet | None, groups: Sequence[Group], *, is_new: bool
) -> tuple[int, int]:
    """Return the partition, and the number of leaders. ``is_new`` if the templates have just changed."""
    partition, replicas = _plan(spec, leaders, groups, is_new=is_new)
    return max(partition, rolling_update(spec)["partition"]), replicas


def _plan(
    spec: JsonObject, leaders: StatefulSet | None, groups: Sequence[Group], *, is_new: bool
) -> tuple[int, int]:
    wanted: int = spec["replicas"]
    if leaders is None:
        return 0, wanted
    present = leaders.spec.replicas or 0
    most = wanted + surge(spec)
    if is_new:
        partition = min(wanted, present)
        return partition, wanted if present < wanted else count_leaders(spec, wanted)
    rolling = leaders.spec.update_strategy.rolling_update
    partition = (rolling.partition if rolling is not None else None) or 0
    if partition == 0 and present == wanted:
        return 0, wanted
    if present < wanted:
        return partition, wanted
    behind = sum(
        number >= len(groups) or not (groups[number].ready and groups[number].updated)
        for number in range(wanted)
    )
    if leaders.metadata.annotations.get(REPLICAS) != str(wanted):
        return min(partition, most), count_leaders(spec, behind)
    step = unavailable(spec) + surge(spec) - (most - present)
    return _move(groups, present, step, partition), count_leaders(spec, behind)


def count_leaders(spec: JsonObject, behind: int) -> int:
    """Return the number of leaders to run while ``behind`` of the wanted groups are not up to date."""
    wanted: int = spec["replicas"]
    extra = surge(spec)
    return wanted + (max(0, behind - unavailable(spec)) if behind <= extra else extra)


def _move(groups: Sequence[Group], present: int, step: int, partition: int) -> int:
    """Return the next partition: groups with this index or a higher one may be updated."""
    done = 0
    for group in reversed(groups):
        if not (group.ready and group.updated):
            break
        done += 1
    floor = max(0, present - done - step)
    # Groups below the partition that are not ready count as well.
    new = floor + sum(not group.ready for group in groups[:floor])
    # A group that is down loses nothing by an update.
    for number in range(min(new, present - 1), floor - 1, -1):
        if groups[number].ready and not groups[number].updated:
            break
        new = number
    return min(new, partition)
