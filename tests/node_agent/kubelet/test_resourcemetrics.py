"""`/metrics/resource`, from which metrics servers read the usage."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import httpx
import pytest
from dra_node_agent.kubelet.resourcemetrics import NodeMeter, render
from dra_node_agent.kubelet.server import NODE_HEADER, KubeletServer
from dra_node_agent.runtime.base import Consumption, ContainerRecord, Runtime, RuntimeFailure, Usage
from dra_shared.clock import FakeClock
from dra_shared.service import HealthServer
from prometheus_client.parser import text_string_to_metric_families

from tests.support.kubelet.bench import Bench, pod
from tests.support.waiting import until

_NOW = FakeClock().now()


def _values(text: str) -> dict[str, float]:
    return {
        f"{sample.name}{','.join(sample.labels.values())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_the_usage_of_containers_is_reported() -> None:
    async with Bench() as bench:
        declared = {
            "name": "main",
            "image": "x",
            "command": ["sleep", "9999"],
            "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}},
        }
        bench.create(pod("pod", declared, {"name": "idle", "image": "x", "command": ["sleep", "9999"]}))
        await until(lambda: bench.phase() == "Running")
        await bench.clock.advance(100)
        routes = KubeletServer([bench.kubelet], bench.clock).routes()
        async with (
            HealthServer("127.0.0.1", 0, {}, routes) as server,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client,
        ):
            answer = await client.get("/metrics/resource", headers={NODE_HEADER: bench.kubelet.name})
            unknown = await client.get("/metrics/resource", headers={NODE_HEADER: "other"})
        assert unknown.status_code == 404
        found = _values(answer.text)
        namespace = "ns"
        assert found[f"container_cpu_usage_seconds_totalmain,{namespace},pod"] == pytest.approx(25, abs=0.5)
        assert found[f"container_memory_working_set_bytesmain,{namespace},pod"] == 64 << 20
        assert found[f"container_memory_working_set_bytesidle,{namespace},pod"] == 8 << 20
        assert found[f"pod_memory_working_set_bytes{namespace},pod"] == 72 << 20
        assert found["node_memory_working_set_bytes"] == (72 << 20) + (512 << 20)
        assert found["resource_scrape_error"] == 0
        milliseconds = round(bench.clock.now().timestamp() * 1000)
        assert f'container="main",namespace="{namespace}",pod="pod"}} ' in answer.text
        assert f" {milliseconds}\n" in answer.text
        assert "# TYPE container_cpu_usage_seconds_total counter\n" in answer.text


class _Runtime:
    """A runtime that reports the given usage."""

    def __init__(self, *answers: Usage | RuntimeFailure) -> None:
        self._answers = list(answers)

    async def usage(self) -> Usage:
        await asyncio.sleep(0)
        answer = self._answers.pop(0)
        if isinstance(answer, RuntimeFailure):
            raise answer
        return answer


def _containers(*found: tuple[str, float]) -> Sequence[tuple[ContainerRecord, Consumption]]:
    return [
        (ContainerRecord(name, "ns", "pod", "uid", name, 0, "x", "x"), Consumption(seconds, 1))
        for name, seconds in found
    ]


def _meter(*answers: Usage | RuntimeFailure) -> NodeMeter:
    return NodeMeter(cast(Runtime, cast(Any, _Runtime(*answers))))


async def test_cpu_time_of_the_node_does_not_shrink_when_containers_are_removed() -> None:
    meter = _meter(
        Usage(_NOW, _containers(("a", 5.0), ("b", 7.0)), Consumption(1.0)),
        Usage(_NOW, _containers(("b", 8.0)), Consumption(2.0)),
        Usage(_NOW, (), Consumption(3.0)),
    )
    samples = [await meter.measure() for _ in range(3)]
    assert [one and one.node.cpu_seconds for one in samples] == [13.0, 15.0, 16.0]


async def test_a_runtime_error_is_reported_as_a_scrape_error() -> None:
    sample = await _meter(RuntimeFailure("RuntimeError", "gone")).measure()
    assert _values(render([sample]).decode()) == {"resource_scrape_error": 1.0, "scrape_error": 1.0}
