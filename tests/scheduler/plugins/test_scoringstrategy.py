"""The three strategies of NodeResourcesFit, in Go's arithmetic."""

from dra_scheduler.componentconfig.types import (
    RequestedToCapacityRatioParam,
    ScoringStrategy,
    UtilizationShapePoint,
)
from dra_scheduler.plugins.scoringstrategy import strategy

from tests.support.cases import each_case

_Resources = list[tuple[int, int, int]]


def _shape(*points: tuple[int, int]) -> ScoringStrategy:
    shape = [UtilizationShapePoint(*point) for point in points]
    return ScoringStrategy("RequestedToCapacityRatio", None, RequestedToCapacityRatioParam(shape))


@each_case(
    ("name", "resources", "score"),
    [
        ("LeastAllocated", [(1, 1, 4), (1, 2, 4)], 62),
        ("LeastAllocated", [(3, 1, 4), (1, 4, 4)], 56),
        ("LeastAllocated", [(1, 5, 4)], 0),
        ("MostAllocated", [(1, 1, 4), (1, 2, 4)], 37),
        ("MostAllocated", [(1, 5, 4)], 100),
        ("LeastAllocated", [], 0),
    ],
)
def test_nodes_are_scored_by_their_least_or_most_allocated_share(
    name: str, resources: _Resources, score: int
) -> None:
    assert strategy(ScoringStrategy(name))(resources) == score


@each_case(
    ("points", "resources", "score"),
    [
        ([(0, 0), (100, 10)], [(1, 1, 4)], 25),
        ([(0, 10), (100, 0)], [(1, 1, 4)], 75),
        ([(0, 10), (100, 0)], [(1, 1, 3)], 67),
        ([(20, 5), (80, 10)], [(1, 1, 10)], 50),
        ([(20, 5), (80, 10)], [(1, 9, 10)], 100),
        # Resources without a score do not count, and halves are rounded up.
        ([(0, 0), (100, 10)], [(1, 0, 4), (1, 1, 4)], 25),
        ([(0, 0), (100, 10)], [(1, 1, 4), (1, 2, 4)], 38),
        ([(0, 0), (100, 10)], [(1, 9, 4)], 100),
    ],
)
def test_nodes_are_scored_by_the_shape_of_requested_to_capacity_ratio(
    points: list[tuple[int, int]], resources: _Resources, score: int
) -> None:
    assert strategy(_shape(*points))(resources) == score
