"""Simulated resource usage of containers."""

from typing import Any

import pytest
from dra_node_agent.runtime.base import ContainerSpec
from dra_node_agent.runtime.consumption import rates
from dra_node_agent.runtime.images import ImageBehaviour
from dra_shared.clock import FakeClock

from tests.support.cases import each_case

_IMAGE = ImageBehaviour(names=("x",), usage={"cpu": "2"})
_GIVEN = {"cpu": "100m", "memory": "32Mi"}


@each_case(
    ("options", "image", "cpu", "memory"),
    [
        ({}, None, 0.001, 8 << 20),
        ({"requests": _GIVEN}, None, 0.1, 32 << 20),
        ({"requests": _GIVEN}, _IMAGE, 2.0, 32 << 20),
        ({"requests": _GIVEN, "limits": {"cpu": "500m"}}, _IMAGE, 0.5, 32 << 20),
        ({"annotations": {"dralab.dev/cpu-usage": "3", "dralab.dev/memory-usage": "1G"}}, _IMAGE, 3.0, 10**9),
        ({"annotations": {"dralab.dev/cpu-usage.main": "4", "dralab.dev/cpu-usage": "3"}}, None, 4.0, 8 << 20),
        ({"annotations": {"dralab.dev/cpu-usage": "much", "dralab.dev/memory-usage": "-1"}}, None, 0.001, 8 << 20),
    ],
)  # fmt: skip
async def test_usage_rates_depend_on_annotations_and_image(
    options: dict[str, Any], image: ImageBehaviour | None, cpu: float, memory: int
) -> None:
    spec = ContainerSpec("ns", "pod", "uid", "main", 0, "x", **options)
    found = rates(spec, image)
    assert found.cpu == pytest.approx(cpu)
    assert found.memory == memory
    clock = FakeClock()
    start = clock.now()
    await clock.advance(10)
    used = found.over(start, clock.now())
    assert used.cpu_seconds == pytest.approx(cpu * 10)
    assert used.working_set == memory
