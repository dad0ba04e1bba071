"""What a node agent decides for its nodes."""

from pathlib import Path

from dra_node_agent.agent import NodeAgent, NodeAgentConfig, pod_subnet
from dra_shared.clock import FakeClock

from tests.fakeapi import Call, FakeApi
from tests.node_agent.kubelet.waiting import until


def test_nodes_have_networks_of_their_own_by_name() -> None:
    taken: set[str] = set()
    for number in range(2000):
        taken.add(pod_subnet(f"node-{number}", taken))
    assert len(taken) == 2000
    assert pod_subnet("one", ()) != pod_subnet("other", ())
    assert pod_subnet("one", ()) == pod_subnet("one", taken)


def test_a_taken_network_gives_way_to_the_next() -> None:
    first = pod_subnet("node", ())
    second = pod_subnet("node", (first,))
    assert first != second
    assert second.startswith("10.")
    assert second.endswith(".0/24")


async def test_is_ready_once_its_slices_are_published(tmp_path: Path) -> None:
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


async def test_nodes_may_be_without_a_driver_of_ours(tmp_path: Path) -> None:
    api, clock = FakeApi(), FakeClock()
    config = NodeAgentConfig(data=tmp_path, drivers=(), durable=False)
    async with api.client() as client, NodeAgent(config, client, clock) as agent:
        await until(lambda: agent.ready, clock=clock)
        assert not api.of("resourceslices")
        assert not api.of("deviceclasses")
        assert (tmp_path / "nodes" / "node-0" / "kubelet" / "plugins_registry").is_dir()
