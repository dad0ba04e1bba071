"""What kube-apiserver 1.36 answers to requests that are a little off, said of ours."""

import copy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_shared.features import FeatureGates

Json = dict[str, Any]

RESOURCE = "/apis/resource.k8s.io"
CLAIMS = f"{RESOURCE}/v1/namespaces/default/resourceclaims"
SLICES = f"{RESOURCE}/v1/resourceslices"
RULES = f"{RESOURCE}/v1beta2/devicetaintrules"

CLAIM: Json = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
}
SLICE: Json = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "s"},
    "spec": {
        "driver": "gpu.example.com",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n",
        "devices": [{"name": "d", "attributes": {"model": {"string": "a"}}}],
    },
}
RULE: Json = {
    "apiVersion": "resource.k8s.io/v1beta2",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "r"},
    "spec": {"taint": {"key": "k", "effect": "NoExecute"}},
}


def changed(obj: Json, path: str, value: Any) -> Json:
    """The object with another value at a dotted path; numbers are indexes."""
    made = copy.deepcopy(obj)
    *parents, last = path.split(".")
    at: Any = made
    for step in parents:
        at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
    at[last] = value
    return made


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    gates = FeatureGates.parse("DRANodeAllocatableResources=true,GenericWorkload=true")
    config = Config(port=0, data=tmp_path, relaxed=True, runtime_config="api/all=true", features=gates)
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as made:
        yield made


@pytest.mark.parametrize(
    ("path", "obj", "problem"),
    [
        pytest.param(
            SLICES,
            changed(SLICE, "spec.devices.0.attributes.model.string", 5),
            "cannot unmarshal number into Go struct field "
            "DeviceAttribute.spec.devices.attributes.string of type string",
            id="below a map",
        ),
        pytest.param(
            SLICES,
            changed(SLICE, "spec.devices.0.attributes.model", "a"),
            "cannot unmarshal string into Go struct field "
            "Device.spec.devices.attributes of type v1.DeviceAttribute",
            id="value of a map",
        ),
        pytest.param(
            CLAIMS,
            changed(CLAIM, "spec.devices.config", [{"opaque": 5}]),
            "cannot unmarshal number into Go struct field "
            "DeviceClaimConfiguration.spec.devices.config.DeviceConfiguration.opaque "
            "of type v1.OpaqueDeviceConfiguration",
            id="embedded struct",
        ),
        pytest.param(
            RULES,
            changed(RULE, "spec.taint.timeAdded", 5),
            "cannot unmarshal number into Go struct field DeviceTaint.spec.taint.timeAdded of type string",
            id="time",
        ),
        pytest.param(
            "/api/v1/namespaces/default/services",
            {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1, "targetPort": True}]}},
            "cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
            id="number or text",
        ),
    ],
)
async def test_wrong_types_are_told_by_the_path_of_gos_decoder(
    client: httpx.AsyncClient, path: str, obj: Json, problem: str
) -> None:
    answer = await client.post(path, json=obj)
    assert answer.status_code == 400
    assert answer.json()["message"].partition(": json: ")[2] == problem


async def test_an_empty_list_that_must_be_there_is_null_when_stored(client: httpx.AsyncClient) -> None:
    answer = await client.post(CLAIMS, json=changed(CLAIM, "spec.devices.requests", []))
    assert answer.status_code == 201
    assert answer.json()["spec"] == {"devices": {"requests": None}}


async def test_warnings_are_cut_where_they_are_too_many(client: httpx.AsyncClient) -> None:
    unknown = {f"{number:03}{'x' * 297}": 1 for number in range(40)}
    answer = await client.post(CLAIMS, json={**CLAIM, **unknown})
    warnings = answer.headers.get_list("warning")
    assert len(warnings) == 16
    assert warnings[0] == f'299 - "{f"""unknown field "000{"x" * 297}"""[:256]}"'.replace(
        'field "', 'field \\"'
    )


@pytest.mark.parametrize("name", ["a b", "x.kubernetes.io/y"])
async def test_any_native_name_may_be_mapped_to_a_device(client: httpx.AsyncClient, name: str) -> None:
    mappings = {name: {"allocationMultiplier": "1"}}
    obj = changed(SLICE, "spec.devices.0.nodeAllocatableResourceMappings", mappings)
    assert (await client.post(SLICES, json=obj)).status_code == 201


async def test_values_of_named_types_are_shown_in_json(client: httpx.AsyncClient) -> None:
    answer = await client.post(RULES, json=changed(RULE, "spec.taint.effect", "<"))
    cause = answer.json()["details"]["causes"][0]["message"]
    assert cause == 'Unsupported value: "\\u003c": supported values: "NoExecute", "NoSchedule", "None"'
