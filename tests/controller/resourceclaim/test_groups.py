"""Claims of pods in a group, while the feature for claims of groups is disabled."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.client.rest import Client
from dra_shared.features import FeatureGates
from dra_shared.version import V1_36, V1_37

from tests.controller.cluster import CLAIM_SPEC, Cluster, controllers

_NAME = "resourceclaim-controller"
_POD = {
    "containers": [{"name": "c", "image": "busybox"}],
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "template"}],
}
_MEMBER = {**_POD, "schedulingGroup": {"podGroupName": "group"}}


@pytest.fixture(params=[V1_36, V1_37], ids=str)
def gates(request: pytest.FixtureRequest) -> FeatureGates:
    return FeatureGates(request.param, GenericWorkload=True)


@pytest.fixture
async def cluster(tmp_path: Path, gates: FeatureGates) -> AsyncIterator[Cluster]:
    config = Config(port=0, data=tmp_path, database=IN_MEMORY, runtime_config="api/all=true", features=gates)
    async with ApiServer(config) as server, Client(server.url) as client:
        yield Cluster(server.url, client)


async def test_members_of_groups_get_no_separate_claims_since_1_37(
    cluster: Cluster, gates: FeatureGates
) -> None:
    await cluster.create("ResourceClaimTemplate", "template", spec={"spec": CLAIM_SPEC})
    await cluster.create("Pod", "member", spec=_MEMBER)
    await cluster.create("Pod", "single", spec=_POD)
    wanted = {"single"} if gates.version == V1_37 else {"member", "single"}

    async def owners() -> set[str]:
        claims = await cluster.items("ResourceClaim")
        return {owner.name for claim in claims for owner in claim.metadata.owner_references}

    async def done() -> bool:
        return await owners() >= wanted

    async with controllers(cluster, _NAME, gates=gates):
        await cluster.until(done)
    assert await owners() == wanted
