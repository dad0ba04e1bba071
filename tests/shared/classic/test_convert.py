"""Test the conversion of manifests of every older form of DRA to today's."""

from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_apiserver.verdict import Judge
from dra_shared.classic import Conversion, Outcome, convert
from dra_shared.classic.notes import find_lost
from dra_shared.classic.pods import pod_spec
from dra_shared.features import FeatureGates
from dra_shared.version import V1_37

from tests.support.cases import each_case
from tests.support.reference import REPOSITORY

DATA = REPOSITORY / "tests" / "data" / "classic"
_COLLECTIONS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "Pod": "/api/v1/namespaces/{}/pods",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates",
    "ResourceQuota": "/api/v1/namespaces/{}/resourcequotas",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
}


def _load(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DATA / name).read_text()))


def _convert(name: str, **options: Any) -> Conversion:
    return convert(_load(name), **options)


def _one(conversion: Conversion, kind: str, name: str) -> dict[str, Any]:
    [found] = [obj for obj in conversion.objects if obj["kind"] == kind and obj["metadata"]["name"] == name]
    return found


def _requests(claim: dict[str, Any]) -> list[dict[str, Any]]:
    spec = claim["spec"].get("spec", claim["spec"])
    found: list[dict[str, Any]] = spec["devices"]["requests"]
    return found


def test_a_claim_gets_the_requests_of_its_parameters_and_class() -> None:
    conversion = _convert("training.yaml")
    [request] = _requests(_one(conversion, "ResourceClaim", "training-gpus"))
    assert request == {
        "name": "mig",
        "exactly": {
            "deviceClassName": "large-gpu",
            "selectors": [
                {
                    "cel": {
                        "expression": "device.attributes['gpu.nvidia.com'].type == 'mig' && "
                        "device.attributes['gpu.nvidia.com'].profile == '3g.40gb'"
                    }
                }
            ],
            "allocationMode": "ExactCount",
            "count": 4,
        },
    }
    pod = _one(conversion, "Pod", "training")
    assert pod["spec"]["resourceClaims"] == [{"name": "gpu", "resourceClaimName": "training-gpus"}]
    # The class with the driver's own name is the one that the driver installs.
    [selector] = _one(conversion, "DeviceClass", "gpu.nvidia.com")["spec"]["selectors"]
    assert selector["cel"]["expression"] == (
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
    )
    assert not find_lost(conversion.notes)


def test_every_converted_field_has_a_note() -> None:
    noted = {(note.subject, note.path) for note in _convert("training.yaml").notes}
    assert noted == {
        ("ResourceClass gpu.nvidia.com", "spec.driverName"),
        ("ResourceClass gpu.nvidia.com", "spec.structuredParameters"),
        ("DeviceClass large-gpu", "spec.selector.matchExpressions[0]"),
        ("DeviceClass large-gpu", "spec.selector.matchExpressions[1]"),
        ("ResourceClaim training-gpus", "spec.resourceClassName"),
        ("ResourceClaim training-gpus", "spec.allocationMode"),
        ("ResourceClaim training-gpus", "spec.parametersRef"),
        ("GpuClaimParameters four-slices", "spec.count"),
        ("GpuClaimParameters four-slices", "spec.deviceClassName"),
        ("GpuClaimParameters four-slices", "spec.mig.profile"),
        ("Pod training", "spec.resourceClaims[0].source.resourceClaimName"),
    }


def test_old_sharing_of_nvidia_becomes_a_current_opaque_config() -> None:
    conversion = _convert("nvidia.yaml")
    devices = _one(conversion, "ResourceClaimTemplate", "a100")["spec"]["spec"]["devices"]
    assert devices["requests"][0]["exactly"]["count"] == 2
    assert devices["config"] == [
        {
            "requests": ["gpu"],
            "opaque": {
                "driver": "gpu.nvidia.com",
                "parameters": {
                    "apiVersion": "resource.nvidia.com/v1beta1",
                    "kind": "GpuConfig",
                    "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}},
                },
            },
        }
    ]
    small = _one(conversion, "ResourceClaim", "small")["spec"]["devices"]
    assert small["requests"][0]["exactly"]["deviceClassName"] == "mig.nvidia.com"
    assert small["config"][0]["opaque"]["parameters"]["kind"] == "MigDeviceConfig"


def test_the_field_source_of_a_claim_in_a_pod_template_is_removed() -> None:
    _, spec = pod_spec(_one(_convert("nvidia.yaml"), "Deployment", "trainers")) or ("", {})
    assert spec["resourceClaims"] == [
        {"name": "gpus", "resourceClaimTemplateName": "a100"},
        {"name": "slice", "resourceClaimName": "small"},
    ]


def test_a_claim_without_parameters_gets_those_of_its_class() -> None:
    conversion = _convert("named-resources.yaml")
    [request] = _requests(_one(conversion, "ResourceClaim", "default-card"))
    selectors = [one["cel"]["expression"] for one in request["exactly"]["selectors"]]
    assert selectors == [
        "has(device.attributes['gpu.example.com'].model) && "
        "device.attributes['gpu.example.com'].model == \"LATEST-GPU-MODEL\""
    ]
    class_selectors = _one(conversion, "DeviceClass", "cards")["spec"]["selectors"]
    assert [one["cel"]["expression"] for one in class_selectors] == [
        "device.driver == 'gpu.example.com'",
        "device.capacity['gpu.example.com'].memory.compareTo(quantity(\"100Gi\")) < 0",
    ]


def test_a_slice_of_named_resources_has_devices() -> None:
    slice_ = _one(_convert("named-resources.yaml"), "ResourceSlice", "node-9-cards")
    assert slice_["spec"]["devices"] == [
        {
            "name": "card-0",
            "capacity": {"memory": {"value": "80Gi"}},
            "attributes": {
                "productName": {"string": "Card"},
                "isNew": {"bool": True},
                "lanes": {"int": 16},
                "firmware": {"version": "1.2.3"},
            },
        }
    ]


def test_fields_without_successor_in_v1_are_lost_with_a_reason() -> None:
    conversion = _convert("versions.yaml")
    assert [(note.subject, note.path) for note in find_lost(conversion.notes)] == [
        ("DeviceClass nodes-chosen", "spec.suitableNodes"),
        ("ResourceClaim default/early", "spec.controller"),
    ]
    assert _requests(_one(conversion, "ResourceClaim", "early")) == [
        {
            "name": "gpu",
            "exactly": {"deviceClassName": "nodes-chosen", "allocationMode": "ExactCount", "count": 2},
        }
    ]


def _claim(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1alpha2",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"resourceClassName": "gpu.nvidia.com", **spec},
    }


def _gpu_parameters(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "gpu.nvidia.com/v1",
        "kind": "GpuClaimParameters",
        "metadata": {"name": "p"},
        "spec": spec,
    }


_REFERENCE = {"apiGroup": "gpu.nvidia.com", "kind": "GpuClaimParameters", "name": "p"}


@each_case(
    ("objects", "path", "reason"),
    [
        ([_claim(allocationMode="Immediate")], "spec.allocationMode", "when the first pod needs the claim"),
        ([_claim(parametersRef=_REFERENCE)], "spec.parametersRef", "GpuClaimParameters p is missing"),
        ([_claim(priority=3)], "spec.priority", "has no such field"),
        ([_gpu_parameters(topology={"nvlink": "required"})], "spec.topology.nvlink", "no such field"),
        ([_gpu_parameters(selector={"index": 3})], "spec.selector", "have no index in v1"),
        ([_gpu_parameters(shareable=False)], "spec.shareable", "any pod of the namespace"),
        (
            [
                {
                    "apiVersion": "resource.k8s.io/v1alpha2",
                    "kind": "PodSchedulingContext",
                    "metadata": {"name": "p"},
                }
            ],
            "",
            "the scheduler needs no such object",
        ),
    ],
)
def test_objects_without_successor_have_a_reason(
    objects: list[dict[str, Any]], path: str, reason: str
) -> None:
    [note] = find_lost(convert(objects).notes)
    assert note.path == path
    assert reason in note.text


def test_class_parameters_are_the_defaults_of_claims() -> None:
    conversion = convert(
        [
            {
                "apiVersion": "resource.k8s.io/v1alpha3",
                "kind": "ResourceClass",
                "metadata": {"name": "sliced"},
                "spec": {
                    "driverName": "gpu.nvidia.com",
                    "parametersRef": {
                        "apiGroup": "gpu.nvidia.com",
                        "kind": "GpuClassParameters",
                        "name": "d",
                    },
                },
            },
            {
                "apiVersion": "gpu.nvidia.com/v1",
                "kind": "GpuClassParameters",
                "metadata": {"name": "d"},
                "spec": {"mig": {"profile": "1g.5gb"}},
            },
            {
                **_claim(parametersRef=_REFERENCE),
                "spec": {"resourceClassName": "sliced", "parametersRef": _REFERENCE},
            },
            _gpu_parameters(count=3),
        ]
    )
    [request] = _requests(_one(conversion, "ResourceClaim", "c"))
    assert request["exactly"]["deviceClassName"] == "sliced"
    assert request["exactly"]["count"] == 3
    assert "'1g.5gb'" in request["exactly"]["selectors"][0]["cel"]["expression"]


def test_parameters_of_a_driver_are_passed_to_it_unchanged() -> None:
    claim = _claim(parametersRef={"kind": "ConfigMap", "name": "settings"})
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": {"speed": "high"},
    }
    devices = _one(convert([claim, settings]), "ResourceClaim", "c")["spec"]["devices"]
    assert devices["config"] == [
        {
            "opaque": {
                "driver": "gpu.nvidia.com",
                "parameters": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"speed": "high"}},
            }
        }
    ]


def test_opaque_configs_of_nvidia_get_the_current_api_group() -> None:
    parameters = {
        "apiVersion": "gpu.nvidia.com/v1alpha1",
        "kind": "GpuConfig",
        "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}},
    }
    claim = {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"config": [{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}]}},
    }
    conversion = convert([claim])
    [config] = _one(conversion, "ResourceClaim", "c")["spec"]["devices"]["config"]
    assert config["opaque"]["parameters"] == {**parameters, "apiVersion": "resource.nvidia.com/v1beta1"}
    assert [note.path for note in conversion.notes] == [
        "apiVersion",
        "spec.devices.config[0].opaque.parameters.apiVersion",
    ]


def test_references_and_driver_names_are_accepted_in_every_documented_spelling() -> None:
    reference = {"apiGroup": "gpu.nvidia.com/v1", "kind": "GpuClaimParameters", "name": "p"}
    class_ = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClass",
        "metadata": {"name": "gpu.nvidia.com"},
        "spec": {"driver": "gpu.nvidia.com"},
    }
    conversion = convert([class_, _claim(parametersRef=reference), _gpu_parameters(count=2)])
    assert _requests(_one(conversion, "ResourceClaim", "c"))[0]["exactly"]["count"] == 2
    assert not find_lost(conversion.notes)


def test_current_objects_are_not_changed() -> None:
    objects = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}},
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"}, "spec": {}},
    ]
    conversion = convert(objects)
    assert list(conversion.objects) == objects
    assert not conversion.notes


def test_notes_of_a_conversion_are_lines_with_an_outcome() -> None:
    [note] = [note for note in _convert("training.yaml").notes if note.path == "spec.allocationMode"]
    assert note.outcome is Outcome.IMPLIED
    assert str(note) == (
        "ResourceClaim training-gpus: spec.allocationMode: implied: v1 always waits for the first pod"
    )


@pytest.mark.system
async def test_an_api_server_accepts_all_converted_objects(tmp_path: Path) -> None:
    conversions = [
        convert(_load(path.name), {} if path.name == "device-plugin.yaml" else None)
        for path in sorted(DATA.glob("*.yaml"))
    ]
    async with (
        ApiServer(Config(port=0, data=tmp_path, database=IN_MEMORY)) as server,
        httpx.AsyncClient(base_url=server.url, params={"fieldValidation": "Strict"}) as client,
    ):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "work"}}
        await client.post("/api/v1/namespaces", json=namespace)
        for number, conversion in enumerate(conversions):
            for obj in conversion.objects:
                path = _COLLECTIONS[obj["kind"]].format(obj["metadata"].get("namespace", "default"))
                response = await client.post(path, json=obj, params={"dryRun": "All"})
                assert response.status_code == 201, f"{number}: {response.text}"


@pytest.mark.parametrize("version", ["v1alpha3", "v1beta2"])
def test_a_device_taint_rule_becomes_one_of_v1(version: str) -> None:
    spec = {
        "deviceSelector": {"driver": "gpu.example.com"},
        "taint": {"key": "example.com/x", "effect": "NoExecute"},
    }
    old = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": spec,
    }
    [made] = convert([old]).objects
    assert made == {**old, "apiVersion": "resource.k8s.io/v1"}
    assert Judge(FeatureGates(V1_37)).create(made).refused == ()
