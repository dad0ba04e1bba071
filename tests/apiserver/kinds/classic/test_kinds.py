"""Test the kinds of classic DRA on an API server that is configured to serve them."""

from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from dra_apiserver.config import Config
from dra_apiserver.kinds import catalog
from dra_apiserver.storage.catalog import IN_MEMORY

from tests.support.cases import each_case
from tests.support.reference import REPOSITORY

_CLASSIC = "resource.k8s.io/classic=true"
_V1ALPHA3 = "/apis/resource.k8s.io/v1alpha3"
_CLAIMS = f"{_V1ALPHA3}/namespaces/default/resourceclaims"
_PODS = "/api/v1/namespaces/default/pods"
_MERGE = {"Content-Type": "application/merge-patch+json"}
_STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(port=0, data=tmp_path, database=IN_MEMORY, runtime_config=_CLASSIC)


def _documents() -> dict[str, dict[str, Any]]:
    text = (REPOSITORY / "tests" / "data" / "classic" / "training.yaml").read_text()
    return {one["metadata"]["name"]: one for one in yaml.safe_load_all(text)}


def _claim(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"resourceClassName": "gpu.nvidia.com", **spec},
    }


def test_classic_kinds_are_served_only_if_enabled() -> None:
    for config in ("", "api/all=true", "resource.k8s.io/classic=false"):
        registry = catalog.registry(config)
        assert registry.resource("resource.k8s.io", "v1alpha3", "resourceclasses") is None
        assert registry.resource("gpu.nvidia.com", "v1", "gpuclaimparameters") is None
        assert not any(kind.types.rewrite_body for kind in registry)


def test_current_kinds_are_served_next_to_classic_ones_of_the_same_name() -> None:
    registry = catalog.registry(_CLASSIC)
    today = registry.resource("resource.k8s.io", "v1", "resourceclaims")
    classic = registry.resource("resource.k8s.io", "v1alpha3", "resourceclaims")
    assert today is not None
    assert classic is not None
    assert today is registry.get("resource.k8s.io", "resourceclaims")
    assert today.storage != classic.storage
    assert registry.versions("resource.k8s.io")[0] == "v1"


async def test_classic_manifests_are_stored_unchanged(client: httpx.AsyncClient) -> None:
    paths = {
        "gpu.nvidia.com": f"{_V1ALPHA3}/resourceclasses",
        "large-gpu": "/apis/gpu.nvidia.com/v1/deviceclasses",
        "training-gpus": _CLAIMS,
        "four-slices": "/apis/gpu.nvidia.com/v1/namespaces/default/gpuclaimparameters",
        "training": _PODS,
    }
    for name, document in _documents().items():
        response = await client.post(paths[name], json=document, params={"fieldValidation": "Strict"})
        assert response.status_code == 201, response.text
    stored = (await client.get(f"{_CLAIMS}/training-gpus")).json()
    assert stored["spec"] == _documents()["training-gpus"]["spec"]
    pod = (await client.get(f"{_PODS}/training")).json()
    assert pod["spec"]["resourceClaims"] == [{"name": "gpu", "resourceClaimName": "training-gpus"}]
    # A controller creates the current object for this classic one.
    today = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    assert (await client.get(today)).json()["items"] == []


async def test_the_fields_of_a_classic_resource_class_are_at_the_top_level(client: httpx.AsyncClient) -> None:
    made = {"apiVersion": "resource.k8s.io/v1alpha2", "kind": "ResourceClass", "metadata": {"name": "c"}}
    path = "/apis/resource.k8s.io/v1alpha2/resourceclasses"
    response = await client.post(path, json={**made, "driverName": "gpu.nvidia.com"})
    assert response.status_code == 201
    headers = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    table = (await client.get(path, headers=headers)).json()
    assert table["rows"][0]["cells"][:2] == ["c", "gpu.nvidia.com"]
    response = await client.post(path, json={**made, "metadata": {"name": "d"}})
    assert response.status_code == 422
    assert "driverName: Required value" in response.json()["message"]


@each_case(
    ("spec", "message"),
    [
        (
            {"allocationMode": "Soon"},
            'spec.allocationMode: Unsupported value: "Soon": supported values: "Immediate", "WaitForFirstConsumer"',
        ),
        ({"resourceClassName": "No Class"}, 'spec.resourceClassName: Invalid value: "No Class"'),
        ({"parametersRef": {"name": "p"}}, "spec.parametersRef.kind: Required value"),
    ],
)
async def test_an_invalid_classic_claim_is_rejected(
    client: httpx.AsyncClient, spec: dict[str, Any], message: str
) -> None:
    response = await client.post(_CLAIMS, json=_claim(**spec))
    assert response.status_code == 422
    assert message in response.json()["message"]


async def test_the_spec_of_a_classic_claim_is_immutable(client: httpx.AsyncClient) -> None:
    made = (await client.post(_CLAIMS, json=_claim())).json()
    assert made["spec"]["allocationMode"] == "WaitForFirstConsumer"
    again = await client.put(f"{_CLAIMS}/c", json={**_claim(), "metadata": made["metadata"]})
    assert again.status_code == 200
    changed = {"spec": {"resourceClassName": "other"}}
    for headers in (_MERGE, _STRATEGIC):
        response = await client.patch(f"{_CLAIMS}/c", json=changed, headers=headers)
        assert response.status_code == 422
        assert "spec: Invalid value" in response.json()["message"]


async def test_the_status_of_a_claim_is_written_in_the_classic_form(client: httpx.AsyncClient) -> None:
    await client.post(_CLAIMS, json=_claim())
    status = {
        "driverName": "gpu.nvidia.com",
        "allocation": {
            "resourceHandles": [{"driverName": "gpu.nvidia.com", "data": "gpu-0"}],
            "shareable": True,
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}],
    }
    response = await client.patch(f"{_CLAIMS}/c/status", json={"status": status}, headers=_MERGE)
    assert response.json()["status"] == status
    headers = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    table = (await client.get(_CLAIMS, headers=headers)).json()
    assert table["rows"][0]["cells"][:4] == [
        "c",
        "gpu.nvidia.com",
        "WaitForFirstConsumer",
        "allocated,reserved",
    ]


async def test_kubectl_apply_of_an_unchanged_pod_with_a_claim_source_changes_nothing(
    client: httpx.AsyncClient,
) -> None:
    pod = _documents()["training"]
    before = (await client.post(_PODS, json=pod)).json()
    entry = {
        "$retainKeys": ["name", "source"],
        "name": "gpu",
        "source": {"resourceClaimName": "training-gpus"},
    }
    patch = {"spec": {"$setElementOrder/resourceClaims": [{"name": "gpu"}], "resourceClaims": [entry]}}
    response = await client.patch(f"{_PODS}/training", json=patch, headers=_STRATEGIC)
    assert response.status_code == 200, response.text
    assert response.json()["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_pods_and_pod_templates_accept_the_old_claim_field_source(client: httpx.AsyncClient) -> None:
    text = yaml.safe_dump(_documents()["training"])
    path = f"{_PODS}/training"
    apply = {"Content-Type": "application/apply-patch+yaml"}
    response = await client.patch(path, content=text, headers=apply, params={"fieldManager": "t"})
    assert response.status_code == 201, response.text
    source = {"resourceClaimTemplateName": "t"}
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "containers": [{"name": "c", "image": "x"}],
            "resourceClaims": [{"name": "gpu", "source": source}],
        },
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    made = await client.post("/apis/apps/v1/namespaces/default/deployments", json=deployment)
    assert made.json()["spec"]["template"]["spec"]["resourceClaims"] == [
        {"name": "gpu", "resourceClaimTemplateName": "t"}
    ]
