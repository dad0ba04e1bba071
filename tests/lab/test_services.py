import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from dra_kube.cluster import Cluster
from dra_lab import servicespecs
from dra_lab.clusteroptions import ClusterOptions
from dra_lab.ports import Port, PortTaken
from dra_lab.services import ClusterServices, Reporter
from dra_shared.listening import listening_socket

from tests.support.warm import warm_forks

_CLIENTS = ("controller", "scheduler", "node-agent")


@pytest.fixture
def used_ports(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Return the ports on which another program listens as soon as they are chosen: the first of each kind."""
    numbers: list[int] = []
    with contextlib.ExitStack() as stack:

        def choose(number: int = 0, scheme: str = "http") -> Port:
            port = Port(number, scheme)
            if len(numbers) < 2:
                numbers.append(port.number)
                stack.enter_context(listening_socket("127.0.0.1", port.number))
            return port

        monkeypatch.setattr(servicespecs, "Port", choose)
        yield numbers


async def test_a_service_whose_port_is_in_use_gets_another(tmp_path: Path, used_ports: list[int]) -> None:
    cluster = Cluster(tmp_path)
    options = ClusterOptions(port=0, without=_CLIENTS[1:])
    with cluster.locked(), warm_forks() as forks:
        services = ClusterServices(cluster, options, Reporter(), forks)
        async with services.run() as server, httpx.AsyncClient() as client:
            record = cluster.record()
            assert len(used_ports) == 2
            assert not {httpx.URL(service.url).port for service in record.services.values()} & set(used_ports)
            for service in record.services.values():
                assert (await client.get(f"{service.url}/readyz")).status_code == 200
            assert record.server == server
            assert server in cluster.kubeconfig.read_text()


async def test_a_port_that_the_user_chose_is_not_replaced(tmp_path: Path, used_ports: list[int]) -> None:
    cluster = Cluster(tmp_path)
    with Port() as held, cluster.locked(), warm_forks() as forks:
        options = ClusterOptions(port=held.number, without=_CLIENTS)
        services = ClusterServices(cluster, options, Reporter(), forks)
        with pytest.raises(PortTaken, match=f"port {held.number} is in use; choose another"):
            async with services.run():
                pass
        assert used_ports == [held.number]
