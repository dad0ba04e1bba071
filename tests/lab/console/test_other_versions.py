"""The console of another cluster uses the version and feature gates of that cluster for expressions and plans."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.front import console
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_kube.access import ChosenCluster
from dra_lab.console.server import pages
from dra_shared.client.rest import Client
from dra_shared.features import FeatureGates
from dra_shared.version import V1_34, V1_36, V1_37

# `includes` is a function for list attributes that exists since 1.36.
_INCLUDES = 'device.attributes["gpu.example.com"].nodes.includes(1)'
_CLASS = b'{"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}'
_CLAIM = f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: c}}
spec:
  devices:
    requests: [{{name: gpu, exactly: {{deviceClassName: gpu, selectors: [{{cel: {{expression: '{_INCLUDES}'}}}}]}}}}]
"""


@pytest.fixture(
    params=[(V1_34, False), (V1_36, False), (V1_36, True), (V1_37, True)], ids=lambda p: f"{p[0]}-{p[1]}"
)
async def cluster(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[bool, httpx.AsyncClient]]:
    version, lists = request.param
    gates = FeatureGates(version, **({"DRAListTypeAttributes": True} if lists else {}))
    config = Config(port=0, data=tmp_path, database=IN_MEMORY, features=gates)
    async with ApiServer(config) as server, Client(server.url) as client:
        made = await client.raw("POST", "/apis/resource.k8s.io/v1/deviceclasses", content=_CLASS)
        assert made.status_code == 201, made.text
        app = pages(ChosenCluster(server=server.url), client, console.Settings())
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://console") as asked:
            yield lists, asked


async def test_expressions_compile_with_the_version_of_the_cluster(
    cluster: tuple[bool, httpx.AsyncClient],
) -> None:
    known, asked = cluster
    answer = await asked.post("/insight/cel", json={"expression": _INCLUDES})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["problems"] == []) == known
    answer = await asked.post("/insight/claim", json={"manifest": _CLAIM})
    assert answer.status_code == 200, answer.text
    (one,) = answer.json()["requests"]
    assert all(selector["problems"] == [] for selector in one["selectors"]) == known
