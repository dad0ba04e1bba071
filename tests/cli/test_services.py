import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from dra_cli import services as module
from dra_cli.cluster import Cluster
from dra_cli.errors import CommandError
from dra_cli.ports import Port, PortTaken
from dra_cli.services import ClusterOptions, ClusterServices, Reporter
from dra_shared.clock import SPEED
from dra_shared.listening import listening_socket

_CLIENTS = ("controller", "scheduler", "node-agent")


def _services(tmp_path: Path, *without: str) -> list[str]:
    return ClusterServices(Cluster(tmp_path), ClusterOptions(port=0, without=without), Reporter()).names


def test_services_can_be_left_out(tmp_path: Path) -> None:
    assert _services(tmp_path) == ["apiserver", "controller", "scheduler", "node-agent"]
    assert _services(tmp_path, "scheduler", "node-agent") == ["apiserver", "controller"]


def test_what_cannot_be_left_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="--without apiserver: choose controller, scheduler, node-agent"):
        _services(tmp_path, "apiserver")


def test_a_cluster_without_nodes_has_no_node_agent(tmp_path: Path) -> None:
    services = ClusterServices(Cluster(tmp_path), ClusterOptions(port=0, nodes=0), Reporter())
    assert services.names == ["apiserver", "controller", "scheduler"]


async def test_services_read_from_the_readers_in_turn(tmp_path: Path) -> None:
    options = ClusterOptions(port=0, nodes=1, apiservers=3)
    services = ClusterServices(Cluster(tmp_path), options, Reporter())
    async with contextlib.AsyncExitStack() as stack:
        specs = {spec.name: (spec.port.url, list(spec.arguments)) for spec in services._specify(stack)}
    assert list(specs)[:3] == ["apiserver", "apiserver-2", "apiserver-3"]
    assert "--serve-readers" in specs["apiserver"][1]
    (one, flags), (other, more) = specs["apiserver-2"], specs["apiserver-3"]
    assert "--reader" in flags
    assert "--reader" in more
    found = []
    for name in ("controller", "scheduler", "node-agent"):
        words = specs[name][1]
        found.append(words[words.index("--read-server") + 1])
    assert found == [one, other, one]


async def test_servers_of_one_postgresql_are_equals(tmp_path: Path) -> None:
    options = ClusterOptions(port=0, nodes=0, apiservers=2, database="postgresql://db/dralab")
    services = ClusterServices(Cluster(tmp_path), options, Reporter())
    async with contextlib.AsyncExitStack() as stack:
        first, second, *_ = (spec.arguments for spec in services._specify(stack))
    assert first == second


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of ports that another program listens on as soon as they are chosen: the first of each kind."""
    numbers: list[int] = []
    with contextlib.ExitStack() as stack:

        def choose(number: int = 0, scheme: str = "http") -> Port:
            port = Port(number, scheme)
            if len(numbers) < 2:
                numbers.append(port.number)
                stack.enter_context(listening_socket("127.0.0.1", port.number))
            return port

        monkeypatch.setattr(module, "Port", choose)
        yield numbers


async def test_a_service_that_cannot_have_its_port_gets_another(tmp_path: Path, taken: list[int]) -> None:
    cluster = Cluster(tmp_path)
    services = ClusterServices(cluster, ClusterOptions(port=0, without=_CLIENTS[1:]), Reporter())
    with cluster.locked():
        async with services.running() as server, httpx.AsyncClient() as client:
            record = cluster.record()
            assert len(taken) == 2
            assert not {httpx.URL(service.url).port for service in record.services.values()} & set(taken)
            for service in record.services.values():
                assert (await client.get(f"{service.url}/readyz")).status_code == 200
            assert record.server == server
            assert server in cluster.kubeconfig.read_text()


async def test_a_port_that_the_user_chose_is_not_exchanged(tmp_path: Path, taken: list[int]) -> None:
    cluster = Cluster(tmp_path)
    with Port() as held, cluster.locked():
        services = ClusterServices(cluster, ClusterOptions(port=held.number, without=_CLIENTS), Reporter())
        with pytest.raises(PortTaken, match=f"port {held.number} is in use; choose another"):
            async with services.running():
                pass
        assert taken == [held.number]


def test_a_token_is_needed_by_default_where_pods_run_on_a_real_engine() -> None:
    assert not ClusterOptions().needs_token
    assert ClusterOptions(runtime="docker").needs_token
    assert not ClusterOptions(runtime="docker", anonymous_auth=True).needs_token
    assert ClusterOptions(anonymous_auth=False).needs_token


def test_speed_and_grace_reach_the_services(tmp_path: Path) -> None:
    services = ClusterServices(Cluster(tmp_path), ClusterOptions(nodes=1, port=0, speed=10, grace=0), print)
    with contextlib.ExitStack() as stack:
        specs = services._specify(stack)  # type: ignore[arg-type]  # it only enters contexts
        (speed,) = {spec.environment[SPEED] for spec in specs}
        agent = next(spec.arguments for spec in specs if spec.name == "node-agent")
    assert speed.startswith("10@")
    assert list(agent)[list(agent).index("--most-grace") + 1] == "0"


@pytest.mark.parametrize("relaxed", [True, False])
def test_relaxed_is_for_checkpoints_too(tmp_path: Path, relaxed: bool) -> None:
    services = ClusterServices(Cluster(tmp_path), ClusterOptions(nodes=1, port=0, relaxed=relaxed), print)
    with contextlib.ExitStack() as stack:
        specs = services._specify(stack)  # type: ignore[arg-type]  # it only enters contexts
        relaxing = {spec.name: "--relaxed" in spec.arguments for spec in specs}
    assert relaxing["apiserver"] is relaxing["node-agent"] is relaxed
