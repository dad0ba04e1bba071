"""Decisions of a node agent for its nodes."""

from pathlib import Path

import pytest
from dra_node_agent.agent import NodeAgent, NodeAgentConfig, pod_subnet
from dra_shared.clock import FakeClock
from dra_shared.lockfile import DirectoryInUse

from tests.support.fakeapi import Call, FakeApi
from tests.support.waiting import until


def test_each_node_has_a_pod_network_by_name() -> None:
    taken: set[str] = set()
    for number in range(2000):
        taken.add(pod_subnet(f"node-{number}", taken))
    assert len(taken) == 2000
    assert pod_subnet("one", ()) != pod_subnet("other", ())
    assert pod_subnet("one", ()) == pod_subnet("one", taken)


def test_a_pod_network_that_is_in_use_is_skipped() -> None:
    first = pod_subnet("node", ())
    second = pod_subnet("node", (first,))
    assert first != second
    assert second.startswith("10.")
    assert second.endswith(".0/24")


async def test_the_agent_is_ready_once_its_slices_are_published(tmp_path: Path) -> None:
    api, clock = FakeApi(), FakeClock()
    allowed = False

    def refuse(call: Call) -> tuple[int, str, str] | None:
        refused = not allowed and (call.verb, call.resource) == ("create", "resourceslices")
        return (500, "InternalError", "not now") if refused else None

    api.refuse = refuse
    config = NodeAgentConfig(data=tmp_path, drivers=("gpu.example.com",), durable=False)
    async with api.client() as client, NodeAgent(config, client, clock) as agent:
        await until(lambda: any(call.verb == "create" for call in api.writes("resourceslices")), clock=clock)
        assert not agent.ready
        assert not api.of("resourceslices")
        allowed = True
        await until(lambda: agent.ready, clock=clock)
        assert [slice_["spec"]["nodeName"] for slice_ in api.of("resourceslices")] == ["node-0"]
        assert api.of("deviceclasses")


async def test_no_driver_publishes_slices_of_a_node_that_is_not_registered_yet(tmp_path: Path) -> None:
    api, clock, registered = FakeApi(), FakeClock(), False

    def refuse(call: Call) -> tuple[int, str, str] | None:
        refused = not registered and (call.verb, call.resource) == ("create", "nodes")
        return (500, "InternalError", "not now") if refused else None

    api.refuse = refuse
    config = NodeAgentConfig(data=tmp_path, drivers=("gpu.example.com",), durable=False)
    async with api.client() as client, NodeAgent(config, client, clock) as agent:
        await until(
            lambda: len([call for call in api.writes("nodes") if call.verb == "create"]) > 2, clock=clock
        )
        assert not api.writes("resourceslices")
        registered = True
        await until(lambda: agent.ready, clock=clock)
        (slice_,) = api.of("resourceslices")
        (node,) = api.of("nodes")
        assert slice_["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]


async def test_nodes_may_have_no_simulated_driver(tmp_path: Path) -> None:
    api, clock = FakeApi(), FakeClock()
    config = NodeAgentConfig(data=tmp_path, drivers=(), durable=False)
    async with api.client() as client, NodeAgent(config, client, clock) as agent:
        await until(lambda: agent.ready, clock=clock)
        assert not api.of("resourceslices")
        assert not api.of("deviceclasses")
        assert (tmp_path / "nodes" / "node-0" / "kubelet" / "plugins_registry").is_dir()


async def test_nodes_with_gpus_have_the_labels_that_charts_select(tmp_path: Path) -> None:
    api, clock = FakeApi(), FakeClock()
    config = NodeAgentConfig(data=tmp_path, drivers=(), gpus="1xH100:whole", durable=False)
    async with api.client() as client, NodeAgent(config, client, clock) as agent:
        await until(lambda: agent.ready and api.of("nodes"), clock=clock)
        (node,) = api.of("nodes")
        assert node["metadata"]["labels"]["nvidia.com/gpu.present"] == "true"
        assert node["metadata"]["labels"]["nvidia.com/gpu.count"] == "1"
        system = agent._system("node-0")
        assert system is not None
        system.gpus[0].mig_enabled = True
        relabelled = {"metadata": {"labels": {"nvidia.com/gpu.replicas": "0"}}}
        await until(lambda: any(call.body == relabelled for call in api.writes("nodes")), clock=clock)


async def test_nodes_of_other_drivers_have_no_gpu_labels(tmp_path: Path) -> None:
    api, clock = FakeApi(), FakeClock()
    config = NodeAgentConfig(data=tmp_path, drivers=("gpu.example.com",), durable=False)
    async with api.client() as client, NodeAgent(config, client, clock) as agent:
        await until(lambda: agent.ready and api.of("nodes"), clock=clock)
        assert not [key for key in api.of("nodes")[0]["metadata"]["labels"] if "nvidia" in key]


async def test_two_agents_cannot_use_the_same_node_directory(tmp_path: Path) -> None:
    api, clock = FakeApi(), FakeClock()
    first = NodeAgentConfig(data=tmp_path, names=("node-0",), drivers=(), durable=False)
    second = NodeAgentConfig(data=tmp_path, names=("node-1", "node-0"), drivers=(), durable=False)
    async with api.client() as client:
        async with NodeAgent(first, client, clock):
            with pytest.raises(DirectoryInUse, match="nodes/node-0 is in use by another node agent"):
                await NodeAgent(second, client, clock).__aenter__()
        async with NodeAgent(second, client, clock) as agent:
            assert len(agent.kubelets) == 2
