"""Test that the service `kubernetes` has the addresses of all API servers of one database."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import httpx
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_shared.clock import FakeClock, rfc3339_micro
from dra_shared.jsontypes import JsonObject

from tests.support.waiting import until

MERGE = {"Content-Type": "application/merge-patch+json"}
ENDPOINTS = "/api/v1/namespaces/default/endpoints/kubernetes"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
OWN = {"labelSelector": "kubernetes.io/service-name=kubernetes"}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def _configs(folder: Path, database: str) -> Callable[[int], Config]:
    """Return the configurations of servers of one database, each with its own address."""
    return lambda number: Config(
        port=0, data=folder / str(number), database=database, relaxed=True, listen=f"127.0.0.{number}"
    )


async def _places(client: httpx.AsyncClient) -> tuple[set[str], set[str]]:
    """Return the addresses in the Endpoints and those in the EndpointSlices, which are written later."""
    endpoints = (await client.get(ENDPOINTS)).json()
    pieces = (await client.get(SLICES, params=OWN)).json()["items"]
    return (
        {
            f"{address['ip']}:{port['port']}"
            for subset in endpoints["subsets"]
            for address in subset["addresses"]
            for port in subset["ports"]
        },
        {
            f"{address}:{port['port']}"
            for piece in pieces
            for endpoint in piece["endpoints"]
            for address in endpoint["addresses"]
            for port in piece["ports"]
        },
    )


async def _sorted_hosts(client: httpx.AsyncClient) -> tuple[list[str], list[str]]:
    """Return the addresses without ports, in order."""
    one, other = [sorted(place.rpartition(":")[0] for place in places) for places in await _places(client)]
    return one, other


async def _addresses(client: httpx.AsyncClient) -> list[str]:
    found, sliced = await _sorted_hosts(client)
    assert found == sliced
    return found


async def test_endpoints_list_all_servers_of_a_database(tmp_path: Path, postgres: Callable[[], str]) -> None:
    clock, config = FakeClock(), _configs(tmp_path, postgres())

    async def all_renewed_after(client: httpx.AsyncClient, after: str) -> bool:
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
            await until(lambda: all_renewed_after(client, later), every=0.01)
            # Neither of the two servers overwrites the endpoints that the other has written.
            assert (await client.get(ENDPOINTS)).json()["metadata"]["resourceVersion"] == before
            leases = (await client.get(LEASES)).json()["items"]
            assert {lease["metadata"]["labels"]["apiserver.kubernetes.io/identity"] for lease in leases} == {
                "kube-apiserver"
            }
            assert len(leases) == 2
        assert await _addresses(client) == ["127.0.0.1"]
        assert len((await client.get(LEASES)).json()["items"]) == 1


async def test_a_dead_server_is_removed_from_the_endpoints_after_its_lease(
    tmp_path: Path, postgres: Callable[[], str]
) -> None:
    clock, config = FakeClock(), _configs(tmp_path, postgres())
    async with (
        ApiServer(config(1), clock) as one,
        httpx.AsyncClient(base_url=one.url, timeout=30) as client,
        # The clock of this server stands still, so it does not renew its lease, as if it had been killed.
        ApiServer(config(2), FakeClock()),
    ):
        assert await _addresses(client) == ["127.0.0.1", "127.0.0.2"]

        async def other_server_is_removed() -> bool:
            await clock.advance(10)
            return await _sorted_hosts(client) == (["127.0.0.1"], ["127.0.0.1"])

        await until(other_server_is_removed, every=0.05)


async def test_servers_at_one_address_have_one_endpoint_for_each_port(
    tmp_path: Path, postgres: Callable[[], str]
) -> None:
    """Check servers that share an address. Upstream's servers do not, but those of `dralab up` do."""
    clock, config = FakeClock(), Config(port=0, data=tmp_path, database=postgres(), relaxed=True)
    async with ApiServer(config, clock) as one, httpx.AsyncClient(base_url=one.url, timeout=30) as client:
        alone = {one.url.removeprefix("http://")}
        for _ in range(2):
            async with ApiServer(config, clock) as other:
                both = {*alone, other.url.removeprefix("http://")}
                assert await _places(client) == (both, both)
                assert len((await client.get(LEASES)).json()["items"]) == 2
                # The second server stops first, whichever of the two ports is lower.
            assert await _places(client) == (alone, alone)
            assert [item["metadata"]["name"] for item in (await client.get(SLICES)).json()["items"]] == [
                "kubernetes"
            ]


async def test_a_single_server_has_an_identity_lease(tmp_path: Path) -> None:
    """Check that the identity lease is renewed every ten seconds and stays the same after a restart.

    It is upstream's `apiserver.kubernetes.io/identity`.
    """
    clock, config = FakeClock(), Config(port=0, data=tmp_path, relaxed=True)
    selected = {"labelSelector": "apiserver.kubernetes.io/identity=kube-apiserver"}

    async def lease(client: httpx.AsyncClient) -> JsonObject:
        (found,) = (await client.get(LEASES, params=selected)).json()["items"]
        return dict(found)

    async with (
        ApiServer(config, clock) as server,
        httpx.AsyncClient(base_url=server.url, timeout=30) as client,
    ):
        first = await lease(client)
        assert first["metadata"]["name"].startswith("apiserver-")
        assert first["spec"]["holderIdentity"].startswith(first["metadata"]["name"])
        assert first["spec"]["leaseDurationSeconds"] == 3600

        async def is_renewed() -> bool:
            await clock.advance(10)
            return bool((await lease(client))["spec"]["renewTime"] > first["spec"]["renewTime"])

        await until(is_renewed, every=0.01)
    async with (
        ApiServer(config, clock) as server,
        httpx.AsyncClient(base_url=server.url, timeout=30) as client,
    ):
        again = await lease(client)
        assert again["metadata"]["uid"] == first["metadata"]["uid"]
        assert again["spec"]["holderIdentity"] != first["spec"]["holderIdentity"]


async def test_leases_of_stopped_servers_are_deleted(tmp_path: Path, postgres: Callable[[], str]) -> None:
    """Check that leases are deleted an hour after the last renewal, and only servers' leases (`apiserverleasegc`)."""
    clock, config = FakeClock(), _configs(tmp_path, postgres())

    def lease(name: str, age: int, label: str = "kube-apiserver") -> JsonObject:
        renewed = rfc3339_micro(clock.now() - timedelta(seconds=age))
        labels = {"apiserver.kubernetes.io/identity": label}
        spec = {"holderIdentity": name, "leaseDurationSeconds": 3600, "renewTime": renewed}
        return {"metadata": {"name": name, "labels": labels}, "spec": spec}

    async with (
        ApiServer(config(1), clock) as one,
        httpx.AsyncClient(base_url=one.url, timeout=30) as client,
    ):
        (own,) = [item["metadata"]["name"] for item in (await client.get(LEASES)).json()["items"]]
        endless = lease("endless", 0)
        del endless["spec"]["renewTime"]
        others = [lease("old", 3601), lease("new", 3000), lease("other", 9999, "mine"), lease("late", 9999)]
        for body in (endless, *others):
            assert (await client.post(LEASES, json=body)).status_code == 201

        async def names_after_renewal(step: float = 10) -> set[str]:
            # The server's clock is hours behind, but the server is alive.
            late = lease("late", 9999)
            answer = await client.patch(f"{LEASES}/late", json=late, headers=MERGE)
            assert answer.status_code == 200
            await clock.advance(step)
            return {item["metadata"]["name"] for item in (await client.get(LEASES)).json()["items"]}

        async def expired_lease_is_removed() -> bool:
            return await names_after_renewal() == {own, "new", "other", "late"}

        await until(expired_lease_is_removed, every=0.05)

        async def later() -> bool:
            return await names_after_renewal(25) == {own, "other", "late"}

        await until(later, every=0.02)
