"""lightkube, with typed and generic resources."""

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import lightkube
import pytest
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_global_resource, create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Node, Pod
from lightkube.types import PatchType

from tests.integration.clients.objects import deployment, gpu_pod, template

pytestmark = pytest.mark.slow

TEMPLATES = create_namespaced_resource(
    "resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"
)
SLICES = create_global_resource("resource.k8s.io", "v1", "ResourceSlice", "resourceslices")


@pytest.fixture(scope="module")
def client(kubeconfig: Path) -> Iterator[lightkube.Client]:
    config = KubeConfig.from_file(kubeconfig)
    made = lightkube.Client(config=config, namespace="default", field_manager="lightkube")
    with contextlib.closing(made):
        yield made


@pytest.fixture
def name() -> str:
    return f"l-{uuid.uuid4().hex[:8]}"


def test_objects_are_listed_in_pages(client: lightkube.Client, name: str) -> None:
    assert [node.metadata.name for node in client.list(Node)] == ["node-0", "node-1"]
    assert [item.spec["driver"] for item in client.list(SLICES)] == ["gpu.nvidia.com"] * 2
    for index in range(3):
        client.create(ConfigMap(metadata=ObjectMeta(name=f"{name}-{index}", labels={"page": name})))
    found = client.list(ConfigMap, labels={"page": name}, chunk_size=2)
    assert [item.metadata.name for item in found] == [f"{name}-{index}" for index in range(3)]
    for index in range(3):
        client.delete(ConfigMap, f"{name}-{index}")
    assert not list(client.list(ConfigMap, labels={"page": name}))


def test_objects_are_patched_replaced_and_applied_with_conflicts(client: lightkube.Client, name: str) -> None:
    made = client.create(ConfigMap(metadata=ObjectMeta(name=name), data={"a": "1"}))
    client.patch(ConfigMap, name, {"data": {"b": "2"}}, patch_type=PatchType.MERGE)
    made.data = {"a": "3"}
    with pytest.raises(ApiError) as late:
        client.replace(made)
    assert late.value.status.reason == "Conflict"
    with pytest.raises(ApiError) as owned:
        client.apply(
            ConfigMap(apiVersion="v1", kind="ConfigMap", metadata=ObjectMeta(name=name), data={"a": "4"}),
            field_manager="other",
        )
    assert "conflict with" in owned.value.status.message
    applied = client.apply(
        ConfigMap(apiVersion="v1", kind="ConfigMap", metadata=ObjectMeta(name=name), data={"a": "4"}),
        field_manager="other",
        force=True,
    )
    assert applied.data == {"a": "4", "b": "2"}
    client.delete(ConfigMap, name)
    with pytest.raises(ApiError) as missing:
        client.get(ConfigMap, name)
    assert missing.value.status.code == 404


def test_a_pod_runs_and_is_watched(client: lightkube.Client, name: str) -> None:
    client.create(TEMPLATES(metadata={"name": name}, spec=template(name)["spec"]))
    client.create(Pod.from_dict(gpu_pod(name, name)))
    for _, pod in client.watch(Pod, labels={"app": name}, server_timeout=60):
        if pod.status.phase == "Running":
            break
    assert client.get(Pod, name).status.phase == "Running"
    assert client.get(Pod, name).spec.nodeName in {"node-0", "node-1"}
    client.delete(Pod, name)


def test_a_condition_of_a_deployment_is_awaited(client: lightkube.Client, name: str) -> None:
    client.create(Deployment.from_dict(deployment(name, 2)))
    done = client.wait(Deployment, name, for_conditions=["Available"])
    assert done.status.readyReplicas == 2
    client.delete(Deployment, name)
