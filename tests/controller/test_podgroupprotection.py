"""Pod groups are kept as long as their pods run, against a real API server."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_controller.podgroupprotection import FINALIZER
from dra_shared.api.codec import convert
from dra_shared.api.resources import Resource
from dra_shared.api.scheduling import PodGroup
from dra_shared.client.errors import NotFound
from dra_shared.client.rest import Client
from dra_shared.features import FeatureGates
from dra_shared.podgroups import pod_groups
from dra_shared.version import V1_36, V1_37

from tests.controller.cluster import POD_SPEC, Cluster, controllers

_NAME = "podgroup-protection-controller"


@pytest.fixture(params=[V1_36, V1_37], ids=str)
def gates(request: pytest.FixtureRequest) -> FeatureGates:
    return FeatureGates(request.param, GenericWorkload=True)


@pytest.fixture
def groups(gates: FeatureGates) -> Resource[PodGroup]:
    return pod_groups(gates.version)


@pytest.fixture
async def cluster(tmp_path: Path, gates: FeatureGates) -> AsyncIterator[Cluster]:
    config = Config(port=0, data=tmp_path, database=IN_MEMORY, runtime_config="api/all=true", features=gates)
    async with ApiServer(config) as server, Client(server.url) as client:
        yield Cluster(server.url, client)


async def _create(cluster: Cluster, groups: Resource[PodGroup]) -> PodGroup:
    body: dict[str, Any] = {
        "metadata": {"name": "group", "namespace": "default"},
        "spec": {"schedulingPolicy": {"basic": {}}},
    }
    return await cluster.client.create(groups, convert(groups, body))


async def _is_gone(cluster: Cluster, groups: Resource[PodGroup]) -> bool:
    try:
        await cluster.client.get(groups, "group", "default")
    except NotFound:
        return True
    return False


async def test_a_deleted_group_is_kept_until_its_pods_have_ended(
    cluster: Cluster, groups: Resource[PodGroup], gates: FeatureGates
) -> None:
    assert (await _create(cluster, groups)).metadata.finalizers == (FINALIZER,)
    member = {**POD_SPEC, "schedulingGroup": {"podGroupName": "group"}}
    pods = [await cluster.create("Pod", name, spec=member) for name in ("ended", "deleted")]
    async with controllers(cluster, _NAME, gates=gates) as manager:
        await cluster.client.delete(groups, "group", "default")
        queue = manager.controllers[_NAME].queue  # type: ignore[attr-defined]  # of this controller alone
        await cluster.set_status("Pod", pods[0], phase="Succeeded")

        async def looked_at() -> bool:
            stored = manager.controllers[_NAME]._pods.get("default/ended")  # type: ignore[attr-defined]  # of this controller alone
            return bool(stored.status.phase == "Succeeded" and queue.idle)

        await cluster.until(looked_at)
        assert not await _is_gone(cluster, groups)
        await cluster.delete("Pod", "deleted", grace_period=0)
        await cluster.until(lambda: _is_gone(cluster, groups))


async def test_a_group_without_pods_is_deleted_at_once(
    cluster: Cluster, groups: Resource[PodGroup], gates: FeatureGates
) -> None:
    await _create(cluster, groups)
    async with controllers(cluster, _NAME, gates=gates):
        await cluster.client.delete(groups, "group", "default")
        await cluster.until(lambda: _is_gone(cluster, groups))


async def test_the_controller_runs_only_with_its_feature(
    cluster: Cluster, groups: Resource[PodGroup], gates: FeatureGates
) -> None:
    async with controllers(cluster, gates=FeatureGates(gates.version)) as manager:
        assert _NAME not in manager.controllers
