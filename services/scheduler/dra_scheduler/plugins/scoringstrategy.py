"""The strategies of NodeResourcesFit: by free resources, by used resources, or by a shape.

Mirrors upstream's ``least_allocated.go``, ``most_allocated.go`` and ``requested_to_capacity_ratio.go`` of
``pkg/scheduler/framework/plugins/noderesources``.
"""

import itertools
from collections.abc import Callable, Sequence

from dra_scheduler.componentconfig.types import ScoringStrategy, UtilizationShapePoint
from dra_scheduler.framework.plugin import MAX_NODE_SCORE

# Returns the score for one resource from the requested and the allocatable amount, which is not 0.
_Score = Callable[[int, int], int]
# Returns the node's score from (weight, requested, allocatable) of each resource that it has.
Strategy = Callable[[Sequence[tuple[int, int, int]]], int]

_MAX_SHAPE_SCORE = 10
_MAX_UTILIZATION = 100


def strategy(settings: ScoringStrategy) -> Strategy:
    """Return the scoring function of the strategy."""
    ratio = settings.requested_to_capacity_ratio
    if settings.type == "RequestedToCapacityRatio" and ratio is not None:
        by_shape = _by_shape(ratio.shape or ())
        return lambda resources: _rounded_mean(by_shape, resources)
    score = _most if settings.type == "MostAllocated" else _least
    return lambda resources: _mean(score, resources)


def _least(requested: int, allocatable: int) -> int:
    return max(allocatable - requested, 0) * MAX_NODE_SCORE // allocatable


def _most(requested: int, allocatable: int) -> int:
    return min(requested, allocatable) * MAX_NODE_SCORE // allocatable


def _mean(score: _Score, resources: Sequence[tuple[int, int, int]]) -> int:
    weights = sum(weight for weight, _, _ in resources)
    total = sum(weight * score(requested, allocatable) for weight, requested, allocatable in resources)
    return total // weights if weights else 0


def _rounded_mean(score: _Score, resources: Sequence[tuple[int, int, int]]) -> int:
    """Return the rounded mean score. Resources with score 0 do not count."""
    scored = [(weight, score(requested, allocatable)) for weight, requested, allocatable in resources]
    weights = sum(weight for weight, found in scored if found > 0)
    total = sum(weight * found for weight, found in scored if found > 0)
    # Like Go's math.Round, halves are rounded up.
    return (2 * total + weights) // (2 * weights) if weights else 0


def _by_shape(points: Sequence[UtilizationShapePoint]) -> _Score:
    scale = MAX_NODE_SCORE // _MAX_SHAPE_SCORE
    shape = [(point.utilization, point.score * scale) for point in points]

    def score(requested: int, allocatable: int) -> int:
        if requested > allocatable:
            return _interpolate(shape, _MAX_UTILIZATION)
        return _interpolate(shape, requested * _MAX_UTILIZATION // allocatable)

    return score


def _interpolate(shape: Sequence[tuple[int, int]], utilization: int) -> int:
    """Return the height of the broken line (helper.BuildBrokenLinearFunction)."""
    if utilization <= shape[0][0]:
        return shape[0][1]
    for (left, low), (right, high) in itertools.pairwise(shape):
        if utilization <= right:
            # Go's division rounds towards zero.
            rise, run = (high - low) * (utilization - left), right - left
            return low + (rise // run if rise >= 0 else -(-rise // run))
    return shape[-1][1]
