"""Claims that are prepared and unprepared in unusual orders, as in Kubernetes 1.37."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from dra_driverkit.transport import LocalSockets
from dra_node_agent.kubelet.dra.errors import DraError
from dra_node_agent.kubelet.dra.manager import DraManager
from dra_shared.api.codec import convert
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS
from dra_shared.clock import FakeClock
from dra_shared.features import FeatureGates
from dra_shared.version import V1_36, V1_37, Version

from tests.support.fakeapi import FakeApi
from tests.support.kubelet.bench import claim, pod
from tests.support.kubelet.fakedriver import FakeDriver

_POD = convert(PODS, pod("pod", resourceClaims=[{"name": "c", "resourceClaimName": "c"}]))
_TWICE = [{"name": name, "resourceClaimName": "c"} for name in ("one", "two")]


@asynccontextmanager
async def _manager(folder: Path, kubernetes: Version = V1_37) -> AsyncIterator[tuple[DraManager, FakeDriver]]:
    api, sockets = FakeApi(), LocalSockets()
    api.put(RESOURCE_CLAIMS, claim("c", "pod"))
    gates = FeatureGates(kubernetes, ResourceHealthStatus=False)
    manager = DraManager(folder, api.client(), FakeClock(), gates, durable=False, sockets=sockets)
    async with FakeDriver(sockets=sockets) as driver:
        manager.connections.register(driver.name, driver.endpoint, driver.services)
        yield manager, driver
        await manager.close()


async def test_a_claim_in_two_entries_of_a_pod_is_not_prepared(tmp_path: Path) -> None:
    twice = convert(PODS, pod("pod", resourceClaims=_TWICE))
    async with _manager(tmp_path) as (manager, driver):
        with pytest.raises(DraError, match="NodePrepareResources skipped 1 ResourceClaims"):
            await manager.prepare(twice)
        assert [len(claims) for _, claims in driver.calls] == [2]
        assert [info.prepared for info in manager.cache] == [False]


async def test_a_claim_whose_unprepare_failed_is_not_prepared_again(tmp_path: Path) -> None:
    async with _manager(tmp_path) as (manager, driver):
        await manager.prepare(_POD)
        (uid,) = driver.prepared
        driver.errors[uid] = "busy"
        with pytest.raises(DraError, match="busy"):
            await manager.unprepare(_POD)
        with pytest.raises(DraError, match="prepare dynamic resources: ResourceClaim c is being unprepared"):
            await manager.prepare(_POD)
        driver.errors.clear()
        await manager.unprepare(_POD)
        await manager.prepare(_POD)
        assert [info.prepared for info in manager.cache] == [True]


@pytest.mark.parametrize("kubernetes", [V1_36, V1_37])
async def test_claims_of_a_pod_whose_status_lacks_claim_names_are_unprepared_since_1_37(
    tmp_path: Path, kubernetes: Version
) -> None:
    lost = convert(PODS, pod("pod", resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}]))
    async with _manager(tmp_path, kubernetes) as (manager, _):
        await manager.prepare(_POD)
        if kubernetes < V1_37:
            with pytest.raises(DraError, match="unprepare dynamic resources"):
                await manager.unprepare(lost)
            return
        await manager.unprepare(lost)
        assert not list(manager.cache)
