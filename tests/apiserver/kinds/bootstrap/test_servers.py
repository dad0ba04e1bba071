"""The service `kubernetes` leads to all API servers of one database."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import httpx
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_shared.clock import FakeClock, rfc3339_micro

from tests.support.waiting import until

ENDPOINTS = "/api/v1/namespaces/default/endpoints/kubernetes"
SLICE = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def _configs(folder: Path, database: str) -> Callable[[int], Config]:
    """Servers of one database, each with an address of its own."""
    return lambda number: Config(
        port=0, data=folder / str(number), database=database, relaxed=True, listen=f"127.0.0.{number}"
    )


async def _shown(client: httpx.AsyncClient) -> tuple[list[str], list[str]]:
    """The addresses in the Endpoints, and those in the EndpointSlice, which is written after it."""
    endpoints = (await client.get(ENDPOINTS)).json()
    pieces = (await client.get(SLICE)).json()["endpoints"]
    return (
        [one["ip"] for subset in endpoints["subsets"] for one in subset["addresses"]],
        [address for one in pieces for address in one["addresses"]],
    )


async def _addresses(client: httpx.AsyncClient) -> list[str]:
    found, sliced = await _shown(client)
    assert found == sliced
    return found


async def test_endpoints_lead_to_all_servers_of_a_database(
    tmp_path: Path, postgres: Callable[[], str]
) -> None:
    clock, config = FakeClock(), _configs(tmp_path, postgres())

    async def renewed(client: httpx.AsyncClient, after: str) -> bool:
        await clock.advance(10)
        leases = (await client.get(LEASES)).json()["items"]
        return all(lease["spec"]["renewTime"] > after for lease in leases)

    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(ApiServer(config(1), clock))
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=one.url, timeout=30))
        assert await _addresses(client) == ["127.0.0.1"]
        async with ApiServer(config(2), clock):
            assert await _addresses(client) == ["127.0.0.1", "127.0.0.2"]
            before = (await client.get(ENDPOINTS)).json()["metadata"]["resourceVersion"]
            later = rfc3339_micro(clock.now() + timedelta(seconds=30))
            await until(lambda: renewed(client, later), every=0.01)
            # The two agree: neither writes over what the other has written.
            assert (await client.get(ENDPOINTS)).json()["metadata"]["resourceVersion"] == before
            leases = (await client.get(LEASES)).json()["items"]
            assert {lease["metadata"]["labels"]["apiserver.kubernetes.io/identity"] for lease in leases} == {
                "kube-apiserver"
            }
            assert len(leases) == 2
        assert await _addresses(client) == ["127.0.0.1"]
        assert len((await client.get(LEASES)).json()["items"]) == 1


async def test_a_server_that_died_is_taken_off_after_its_lease(
    tmp_path: Path, postgres: Callable[[], str]
) -> None:
    clock, config = FakeClock(), _configs(tmp_path, postgres())
    async with (
        ApiServer(config(1), clock) as one,
        httpx.AsyncClient(base_url=one.url, timeout=30) as client,
        # Its clock stands still: it renews nothing, as one that was killed.
        ApiServer(config(2), FakeClock()),
    ):
        assert await _addresses(client) == ["127.0.0.1", "127.0.0.2"]

        async def gone() -> bool:
            await clock.advance(10)
            return await _shown(client) == (["127.0.0.1"], ["127.0.0.1"])

        await until(gone, every=0.05)
