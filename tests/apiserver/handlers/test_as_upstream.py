"""Test that requests with small mistakes get the same responses as from kube-apiserver."""

import copy
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case

RESOURCE = "/apis/resource.k8s.io"
CLAIMS = f"{RESOURCE}/v1/namespaces/default/resourceclaims"
SLICES = f"{RESOURCE}/v1/resourceslices"
RULES = f"{RESOURCE}/v1beta2/devicetaintrules"

CLAIM: JsonObject = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
}
SLICE: JsonObject = {
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
RULE: JsonObject = {
    "apiVersion": "resource.k8s.io/v1beta2",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "r"},
    "spec": {"taint": {"key": "k", "effect": "NoExecute"}},
}


def change(obj: JsonObject, path: str, value: Any) -> JsonObject:
    """Return the object with another value at a dotted path, in which numbers are indexes."""
    made = copy.deepcopy(obj)
    *parents, last = path.split(".")
    at: Any = made
    for step in parents:
        at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
    at[last] = value
    return made


@pytest.fixture
def config(tmp_path: Path) -> Config:
    gates = FeatureGates.parse("DRANodeAllocatableResources=true,GenericWorkload=true")
    return Config(port=0, data=tmp_path, database=IN_MEMORY, runtime_config="api/all=true", features=gates)


@each_case(
    ("path", "obj", "problem"),
    [
        pytest.param(
            SLICES,
            change(SLICE, "spec.devices.0.attributes.model.string", 5),
            "cannot unmarshal number into Go struct field "
            "DeviceAttribute.spec.devices.attributes.string of type string",
            id="below a map",
        ),
        pytest.param(
            SLICES,
            change(SLICE, "spec.devices.0.attributes.model", "a"),
            "cannot unmarshal string into Go struct field "
            "Device.spec.devices.attributes of type v1.DeviceAttribute",
            id="value of a map",
        ),
        pytest.param(
            CLAIMS,
            change(CLAIM, "spec.devices.config", [{"opaque": 5}]),
            "cannot unmarshal number into Go struct field "
            "DeviceClaimConfiguration.spec.devices.config.DeviceConfiguration.opaque "
            "of type v1.OpaqueDeviceConfiguration",
            id="embedded struct",
        ),
        pytest.param(
            RULES,
            change(RULE, "spec.taint.timeAdded", 5),
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
async def test_wrong_types_are_reported_by_the_path_of_gos_decoder(
    client: httpx.AsyncClient, path: str, obj: JsonObject, problem: str
) -> None:
    answer = await client.post(path, json=obj)
    assert answer.status_code == 400
    assert answer.json()["message"].partition(": json: ")[2] == problem


async def test_an_empty_required_list_is_stored_as_null(client: httpx.AsyncClient) -> None:
    answer = await client.post(CLAIMS, json=change(CLAIM, "spec.devices.requests", []))
    assert answer.status_code == 201
    assert answer.json()["spec"] == {"devices": {"requests": None}}


async def test_excess_warnings_are_truncated(client: httpx.AsyncClient) -> None:
    unknown = {f"{number:03}{'x' * 297}": 1 for number in range(40)}
    answer = await client.post(CLAIMS, json={**CLAIM, **unknown})
    warnings = answer.headers.get_list("warning")
    assert len(warnings) == 16
    assert warnings[0] == f'299 - "{f"""unknown field "000{"x" * 297}"""[:256]}"'.replace(
        'field "', 'field \\"'
    )


@pytest.mark.parametrize("name", ["a b", "x.kubernetes.io/y"])
async def test_any_native_resource_name_may_be_mapped_to_a_device(
    client: httpx.AsyncClient, name: str
) -> None:
    mappings = {name: {"allocationMultiplier": "1"}}
    obj = change(SLICE, "spec.devices.0.nodeAllocatableResourceMappings", mappings)
    assert (await client.post(SLICES, json=obj)).status_code == 201


async def test_a_rejected_value_of_a_named_go_string_type_is_shown_as_json(client: httpx.AsyncClient) -> None:
    answer = await client.post(RULES, json=change(RULE, "spec.taint.effect", "<"))
    cause = answer.json()["details"]["causes"][0]["message"]
    assert cause == 'Unsupported value: "\\u003c": supported values: "NoExecute", "NoSchedule", "None"'


STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
MERGE = {"Content-Type": "application/merge-patch+json"}


@each_case(
    ("patch", "problem"),
    [
        ({"spec": {"driver": 5}}, "cannot convert int64 to string"),
        ({"spec": {"driver": True}}, "unrecognized type: string"),
        ({"spec": {"pool": {"generation": "1"}}}, "unrecognized type: int64"),
        ({"spec": {"pool": {"generation": 1.5}}}, "cannot convert float64 to int64"),
        ({"spec": {"pool": "p"}}, "cannot restore struct from: string"),
        ({"spec": {"devices": {"name": "d"}}}, "cannot restore slice from map"),
        ({"metadata": {"labels": ["a"]}}, "cannot restore map from slice"),
        ({"metadata": []}, "cannot restore struct from: slice"),
    ],
)
async def test_wrong_types_in_strategic_merge_patches_are_rejected(
    client: httpx.AsyncClient, patch: JsonObject, problem: str
) -> None:
    await client.post(SLICES, json=SLICE)
    answer = await client.patch(f"{SLICES}/s", json=patch, headers=STRATEGIC)
    assert answer.status_code == 422
    message = answer.json()["message"]
    assert message.startswith(' "" is invalid: patch: Invalid value: "map[')
    assert message.endswith(f'": {problem}')


async def test_strategic_merge_patches_take_whole_numbers_however_written(client: httpx.AsyncClient) -> None:
    await client.post(SLICES, json=SLICE)
    answer = await client.patch(
        f"{SLICES}/s", content='{"spec":{"pool":{"generation":2.0}}}', headers=STRATEGIC
    )
    assert (answer.status_code, answer.json()["spec"]["pool"]["generation"]) == (200, 2)
    answer = await client.patch(f"{SLICES}/s", content='{"spec":{"pool":{"generation":2.0}}}', headers=MERGE)
    assert answer.status_code == 422


async def test_strategic_merge_patches_have_warnings(client: httpx.AsyncClient) -> None:
    await client.post(SLICES, json=SLICE)
    device = {"name": "d", "attributes": {"model": {"string": "a", "z": 1, "b": 1}}, "c": 1}
    answer = await client.patch(f"{SLICES}/s", json={"spec": {"devices": [device]}}, headers=STRATEGIC)
    assert [text.split('\\"')[1] for text in answer.headers.get_list("warning")] == [
        "spec.devices[0].attributes.b",
        "spec.devices[0].attributes.z",
        "spec.devices[0].c",
    ]


async def test_a_merge_patch_drops_nulls_in_objects_of_lists(client: httpx.AsyncClient) -> None:
    url = f"{RESOURCE}/v1/deviceclasses"
    await client.post(url, json={"metadata": {"name": "c"}})
    config = [{"opaque": {"driver": "d", "parameters": {"a": [None, {"b": None, "c": 1}]}}}]
    answer = await client.patch(f"{url}/c", json={"spec": {"config": config}}, headers=MERGE)
    assert answer.json()["spec"]["config"][0]["opaque"]["parameters"] == {"a": [None, {"c": 1}]}


async def test_a_patch_that_replaces_metadata_by_a_string_is_invalid(client: httpx.AsyncClient) -> None:
    await client.post(CLAIMS, json=CLAIM)
    answer = await client.patch(f"{CLAIMS}/c", json={"metadata": "x"}, headers=MERGE)
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")


async def test_an_update_validates_the_metadata_of_every_kind(client: httpx.AsyncClient) -> None:
    await client.post(SLICES, json=SLICE)
    owner = {"apiVersion": "a/b/c", "kind": "", "name": "x", "uid": ""}
    meta = {"name": "s", "finalizers": ["a b"], "ownerReferences": [owner], "labels": {"a": "b c"}}
    answer = await client.put(f"{SLICES}/s", json={**SLICE, "metadata": meta})
    found = [(one["field"], one["message"]) for one in answer.json()["details"]["causes"]]
    owners = [
        ("metadata.ownerReferences.apiVersion", 'Invalid value: "a/b/c": version must not be empty'),
        ("metadata.ownerReferences.kind", 'Invalid value: "": must not be empty'),
        ("metadata.ownerReferences.uid", 'Invalid value: "": must not be empty'),
    ]
    assert found[1:4] == owners
    assert [field for field, _ in found] == [
        "metadata.labels",
        *(field for field, _ in owners),
        "metadata.finalizers",
        "metadata.finalizers[0]",
    ]


async def test_an_update_without_a_revision_names_the_resource_where_one_is_needed(
    client: httpx.AsyncClient,
) -> None:
    url = f"{RESOURCE}/v1alpha3/resourcepoolstatusrequests"
    obj = {"metadata": {"name": "q"}, "spec": {"driver": "gpu.example.com"}}
    assert (await client.post(url, json=obj)).status_code == 201
    answer = await client.put(f"{url}/q", json=obj)
    assert answer.json()["details"]["kind"] == "resourcepoolstatusrequests"


async def test_fields_that_an_update_may_not_change_keep_their_manager(client: httpx.AsyncClient) -> None:
    made = (await client.post(RULES, json=RULE, params={"fieldManager": "first"})).json()
    taint = {**made["spec"]["taint"], "value": "v"}
    obj = {**made, "spec": {"taint": taint}}
    answer = await client.put(f"{RULES}/r", json=obj, params={"fieldManager": "second"})
    owned = {
        entry["manager"]: set(entry["fieldsV1"]["f:spec"]["f:taint"])
        for entry in answer.json()["metadata"]["managedFields"]
    }
    # The server gives the changed taint a new time, which is not what the client wrote.
    assert owned == {"first": {"f:key", "f:effect", "f:timeAdded"}, "second": {"f:value"}}


async def test_json_true_and_1_and_1_0_count_as_different_values(client: httpx.AsyncClient) -> None:
    url = f"{RESOURCE}/v1/deviceclasses"

    def device_class(value: str) -> str:
        config = '[{"opaque":{"driver":"d","parameters":{"a":' + value + "}}}]"
        return '{"metadata":{"name":"c"},"spec":{"config":' + config + "}}"

    await client.post(url, content=device_class("1"))
    for generation, value in ((2, "true"), (3, "1.0"), (4, "1")):
        answer = await client.put(f"{url}/c", content=device_class(value))
        assert answer.json()["metadata"]["generation"] == generation
        assert f'"a":{value}' in answer.text
    template = {"metadata": {"name": "t"}, "spec": {"spec": CLAIM["spec"]}}
    config = [{"opaque": {"driver": "d", "parameters": {"a": 1}}}]
    url = f"{RESOURCE}/v1/namespaces/default/resourceclaimtemplates"
    await client.post(url, json=change(template, "spec.spec.devices.config", config))
    config[0]["opaque"]["parameters"] = {"a": True}
    answer = await client.put(f"{url}/t", json=change(template, "spec.spec.devices.config", config))
    assert answer.status_code == 422


async def test_rejected_values_are_shown_with_empty_structs(client: httpx.AsyncClient) -> None:
    template = {"metadata": {"name": "t"}, "spec": {"spec": CLAIM["spec"]}}
    url = f"{RESOURCE}/v1/namespaces/default/resourceclaimtemplates"
    await client.post(url, json=template)
    answer = await client.put(
        f"{url}/t", json=change(template, "spec.spec.devices.requests.0.exactly.capacity", {})
    )
    assert '"Capacity":{"Requests":null}' in answer.json()["details"]["causes"][-1]["message"]
    obj = change(SLICE, "spec.nodeSelector", {"nodeSelectorTerms": []})
    del obj["spec"]["nodeName"]
    answer = await client.post(SLICES, json=obj)
    assert "Invalid value: []: must have exactly one node selector term" in answer.json()["message"]


async def test_the_invalid_segment_of_a_pool_name_is_shown(client: httpx.AsyncClient) -> None:
    url = f"{RESOURCE}/v1alpha3/resourcepoolstatusrequests"
    obj = {"metadata": {"name": "q"}, "spec": {"driver": "gpu.example.com", "poolName": "a//B"}}
    causes = (await client.post(url, json=obj)).json()["details"]["causes"]
    assert causes[0]["message"] == 'Invalid value: "a//B": segment 1: must not be empty'
    assert causes[1]["message"].startswith('Invalid value: "B": segment 2: a lowercase RFC 1123 subdomain')


async def test_the_zero_time_is_invalid_for_a_condition(client: httpx.AsyncClient) -> None:
    await client.post(RULES, json=RULE)
    condition = {"type": "A", "status": "True", "reason": "R", "message": ""}
    body = {"status": {"conditions": [{**condition, "lastTransitionTime": "0001-01-01T00:00:00Z"}]}}
    answer = await client.patch(f"{RULES}/r/status", json=body, headers=MERGE)
    assert answer.status_code == 422
    assert answer.json()["details"]["causes"][0]["field"] == "status.conditions[0].lastTransitionTime"


async def test_an_update_with_uid_of_a_deleted_object_is_a_conflict(
    client: httpx.AsyncClient,
) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l", "namespace": "default", "uid": "u", "resourceVersion": "7"},
        "spec": {},
    }
    answer = await client.put(path, json=lease)
    assert answer.status_code == 409
    assert answer.json()["reason"] == "Conflict"
    assert answer.json()["message"] == (
        'Operation cannot be fulfilled on leases.coordination.k8s.io "l": StorageError: invalid object, Code: 4, Key: '
        "/registry/leases/default/l, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        "UID in precondition: u, UID in object meta: "
    )
