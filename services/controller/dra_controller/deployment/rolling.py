"""Compute the next number of replicas of each of a Deployment's ReplicaSets. Pure.

Mirrors pkg/controller/deployment/rolling.go, with its arithmetic.
"""

import math
from collections.abc import Sequence

from dra_shared.api.apps import Deployment, ReplicaSet

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX = "deployment.kubernetes.io/max-replicas"


def replicas_of(obj: Deployment | ReplicaSet) -> int:
    """Return the number of replicas in the spec."""
    return 1 if obj.spec.replicas is None else obj.spec.replicas


def total_replicas(replica_sets: Sequence[ReplicaSet]) -> int:
    """Return the sum of the replicas in the specs."""
    return sum(replicas_of(replica_set) for replica_set in replica_sets)


def limits(deployment: Deployment) -> tuple[int, int]:
    """Return how many pods there may be above the desired number, and how many may be unavailable below it."""
    replicas = replicas_of(deployment)
    strategy = deployment.spec.strategy
    if strategy.type == "Recreate" or replicas == 0:
        return 0, 0
    rolling = strategy.rolling_update
    surge = scale_value(rolling.max_surge if rolling is not None else None, replicas, up=True)
    unavailable = scale_value(rolling.max_unavailable if rolling is not None else None, replicas, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, replicas)


def scale_value(value: int | str | None, whole: int, *, up: bool) -> int:
    """Return an int-or-percentage of ``whole``. A fraction is rounded ``up`` or down."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    part = int(value.removesuffix("%")) * whole / 100
    return math.ceil(part) if up else math.floor(part)


def new_replicas(deployment: Deployment, everything: Sequence[ReplicaSet], newest: ReplicaSet) -> int:
    """Return the number to which the newest ReplicaSet may grow now."""
    wanted = replicas_of(deployment)
    if deployment.spec.strategy.type == "Recreate":
        return wanted
    surge, _ = limits(deployment)
    room = wanted + surge - total_replicas(everything)
    if room <= 0:
        return replicas_of(newest)
    return replicas_of(newest) + min(room, wanted - replicas_of(newest))


def old_replicas(
    deployment: Deployment, everything: Sequence[ReplicaSet], newest: ReplicaSet, old: Sequence[ReplicaSet]
) -> dict[str, int]:
    """Return the numbers to which older ReplicaSets may shrink now, by key: broken pods first, then by availability."""
    _, unavailable = limits(deployment)
    least = replicas_of(deployment) - unavailable
    new_unavailable = replicas_of(newest) - (newest.status.available_replicas or 0)
    allowed = total_replicas(everything) - least - new_unavailable
    result = {replica_set.key: replicas_of(replica_set) for replica_set in old}
    if allowed <= 0 or not any(result.values()):
        return result
    ordered = sorted(old, key=_age)
    cleaned = 0
    for replica_set in ordered:
        available = replica_set.status.available_replicas or 0
        current = result[replica_set.key]
        broken = min(allowed - cleaned, current - available)
        if current and broken > 0:
            result[replica_set.key] = current - broken
            cleaned += broken
    spare = sum(replica_set.status.available_replicas or 0 for replica_set in everything) - least
    for replica_set in ordered:
        if spare <= 0:
            break
        down = min(result[replica_set.key], spare)
        result[replica_set.key] -= down
        spare -= down
    return result


def scale_proportionally(deployment: Deployment, active: Sequence[ReplicaSet]) -> dict[str, int]:
    """Return the new size of each active ReplicaSet, by key, when a Deployment is scaled during a roll-out."""
    surge, _ = limits(deployment)
    wanted = replicas_of(deployment)
    allowed = wanted + surge if wanted > 0 else 0
    current = total_replicas(active)
    change = allowed - current
    # The largest ReplicaSet comes first. Among equal ones the newest comes first if the Deployment grows.
    ordered = sorted(active, key=_age, reverse=change > 0)
    ordered.sort(key=lambda replica_set: -replicas_of(replica_set))
    result: dict[str, int] = {}
    added = 0
    for replica_set in ordered:
        size = replicas_of(replica_set)
        if change == 0:
            result[replica_set.key] = size
            continue
        share = _share(replica_set, deployment, allowed, change, added)
        result[replica_set.key] = size + share
        added += share
    if ordered and change:
        largest = ordered[0].key
        result[largest] = max(0, result[largest] + change - added)
    return result


def _share(replica_set: ReplicaSet, deployment: Deployment, allowed: int, change: int, added: int) -> int:
    size = replicas_of(replica_set)
    if size == 0:
        return 0
    annotated = replica_set.metadata.annotations.get(MAX, "")
    before = int(annotated) if annotated.isdigit() and annotated != "0" else deployment.status.replicas or 0
    fraction = round_half_away(size * allowed / before) - size if before else 0
    left = change - added
    return min(fraction, left) if change > 0 else max(fraction, left)


def round_half_away(value: float) -> int:
    """Return the nearest whole number; halves are rounded away from zero."""
    return math.floor(value + 0.5) if value >= 0 else math.ceil(value - 0.5)


def _age(replica_set: ReplicaSet) -> tuple[str, str]:
    return replica_set.metadata.creation_timestamp or "", replica_set.metadata.name
