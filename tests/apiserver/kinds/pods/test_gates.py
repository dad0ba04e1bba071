"""Fields of pods behind feature gates."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.verdict import Judge
from dra_shared.features import FeatureGates
from dra_shared.version import V1_35, V1_36, V1_37, Version

Json = dict[str, Any]

_PODS = "/api/v1/namespaces/default/pods"
_EXTENDED = {
    "resourceClaimName": "made",
    "requestMappings": [
        {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
    ],
}


def _pod(**spec: Any) -> Json:
    amounts = {"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "1"}}
    containers = [{"name": "c", "image": "busybox", "resources": amounts}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"containers": containers, **spec},
    }


@pytest.mark.parametrize(
    ("version", "field", "value"),
    [
        (V1_35, "workloadRef", {"name": "w", "podGroup": "g"}),
        (V1_36, "schedulingGroup", {"podGroupName": "g"}),
        (V1_37, "schedulingGroup", {"podGroupName": "g"}),
    ],
)
def test_the_group_of_a_pod_goes_with_its_gate(version: Version, field: str, value: Json) -> None:
    pod = _pod(**{field: value})
    assert Judge(FeatureGates(version)).create(pod).dropped == (f"spec.{field}",)
    on = Judge(FeatureGates(version, GenericWorkload=True))
    assert on.create(pod).dropped == ()
    # What a pod has already it keeps.
    pod["metadata"]["uid"] = "1"
    assert Judge(FeatureGates(version)).keep(pod).dropped == ()


@contextlib.asynccontextmanager
async def _server(path: Path, **gates: bool) -> AsyncIterator[httpx.AsyncClient]:
    config = Config(port=0, data=path, relaxed=True, features=FeatureGates(V1_36, **gates))
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as client:
        yield client


@pytest.mark.parametrize("on", [True, False])
async def test_the_claim_for_extended_resources_goes_with_its_gate(tmp_path: Path, on: bool) -> None:
    async with _server(tmp_path, DRAExtendedResource=on) as client:
        made = (await client.post(_PODS, json=_pod())).json()
        status = {**made["status"], "extendedResourceClaimStatus": _EXTENDED}
        answer = await client.put(f"{_PODS}/a/status", json={**made, "status": status})
    assert answer.status_code == 200
    assert answer.json()["status"].get("extendedResourceClaimStatus") == (_EXTENDED if on else None)
