"""Controllers that create current objects for those of classic DRA, against a real API server."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_controller.classicdra.backing import TEMPLATE
from dra_controller.classicdra.objects import CLAIMS, CLASSES, CONTEXTS, TEMPLATES, ClassicObject
from dra_controller.classicdra.translator import Translator
from dra_controller.framework import Context
from dra_controller.manager import ControllerManager
from dra_shared.api.codec import convert
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import DEVICE_CLASSES, NODES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dra_shared.claims import CLASSIC_UID_ANNOTATION, IMMEDIATE_ANNOTATION
from dra_shared.client.errors import NotFound
from dra_shared.client.informer import InformerFactory
from dra_shared.client.rest import Client
from dra_shared.client.workqueue import WorkQueue
from dra_shared.clock import FakeClock
from dra_shared.features import FeatureGates
from prometheus_client import CollectorRegistry

from tests.controller.cluster import Cluster, controllers
from tests.support.fakeapi import FakeApi
from tests.support.reference import REPOSITORY

_NAME = "classic-dra-controller"
_NODE = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
_PATHS = {
    "ResourceClass": "/apis/resource.k8s.io/v1alpha3/resourceclasses",
    "ResourceClaim": "/apis/resource.k8s.io/v1alpha3/namespaces/default/resourceclaims",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1alpha3/namespaces/default/resourceclaimtemplates",
    "DeviceClass": "/apis/gpu.nvidia.com/v1/deviceclasses",
    "GpuClaimParameters": "/apis/gpu.nvidia.com/v1/namespaces/default/gpuclaimparameters",
    "Pod": "/api/v1/namespaces/default/pods",
}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    config = Config(
        port=0, data=tmp_path, database=IN_MEMORY, runtime_config="api/all=true,resource.k8s.io/classic=true"
    )
    async with ApiServer(config) as server, Client(server.url) as client:
        yield Cluster(server.url, client)


@contextlib.asynccontextmanager
async def _run_translation(cluster: Cluster, *more: str) -> AsyncIterator[ControllerManager]:
    async with controllers(cluster, _NAME, *more) as manager:
        yield manager


async def _post(cluster: Cluster, document: dict[str, Any]) -> None:
    response = await cluster.client.raw(
        "POST",
        _PATHS[document["kind"]],
        content=yaml.safe_dump(document).encode(),
        content_type="application/yaml",
    )
    assert response.status_code == 201, response.text


def _documents() -> list[dict[str, Any]]:
    text = (REPOSITORY / "tests" / "data" / "classic" / "training.yaml").read_text()
    return list(yaml.safe_load_all(text))


async def _training(cluster: Cluster) -> None:
    for document in _documents():
        await _post(cluster, document)


async def _today(cluster: Cluster, name: str) -> ResourceClaim | None:
    try:
        return await cluster.client.get(RESOURCE_CLAIMS, name, "default")
    except NotFound:
        return None


async def _wait_for_claim(cluster: Cluster, name: str) -> ResourceClaim:
    async def there() -> bool:
        return await _today(cluster, name) is not None

    await cluster.until(there)
    found = await _today(cluster, name)
    assert found is not None
    return found


async def _classic(cluster: Cluster, name: str) -> ClassicObject:
    return await cluster.client.get(CLAIMS, name, "default")


async def _allocate(cluster: Cluster, claim: ResourceClaim, *devices: str) -> None:
    request = claim.spec.devices.requests[0].name
    results = [
        {"driver": "gpu.nvidia.com", "pool": "node-1", "device": device, "request": request}
        for device in devices
    ]
    allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [_NODE]}}
    reserved = [{"resource": "pods", "name": "training", "uid": "u"}]
    await cluster.set_status("ResourceClaim", claim, allocation=allocation, reservedFor=reserved)


async def test_a_current_claim_is_created_for_a_classic_one(cluster: Cluster) -> None:
    async with _run_translation(cluster):
        await _training(cluster)
        claim = await _wait_for_claim(cluster, "training-gpus")

        async def classes() -> bool:
            names = {one.metadata.name for one in (await cluster.client.list(DEVICE_CLASSES)).items}
            return {"gpu.nvidia.com", "large-gpu"} <= names

        await cluster.until(classes)
    exactly = claim.spec.devices.requests[0].exactly
    assert exactly is not None
    assert (exactly.device_class_name, exactly.count) == ("large-gpu", 4)
    assert (
        claim.metadata.annotations[CLASSIC_UID_ANNOTATION]
        == (await _classic(cluster, "training-gpus")).metadata.uid
    )


async def test_the_status_is_converted_to_the_classic_form(cluster: Cluster) -> None:
    async with _run_translation(cluster):
        await _training(cluster)
        await _allocate(
            cluster, await _wait_for_claim(cluster, "training-gpus"), "gpu-0-mig-a", "gpu-0-mig-b"
        )

        async def is_allocated() -> bool:
            return "allocation" in (await _classic(cluster, "training-gpus")).status

        await cluster.until(is_allocated)
    assert (await _classic(cluster, "training-gpus")).status == {
        "driverName": "gpu.nvidia.com",
        "allocation": {
            "resourceHandles": [
                {
                    "driverName": "gpu.nvidia.com",
                    "structuredData": {
                        "nodeName": "node-1",
                        "results": [
                            {"namedResources": {"name": "gpu-0-mig-a"}},
                            {"namedResources": {"name": "gpu-0-mig-b"}},
                        ],
                    },
                }
            ],
            "availableOnNodes": {"nodeSelectorTerms": [_NODE]},
            "shareable": True,
        },
        "reservedFor": [{"resource": "pods", "name": "training", "uid": "u"}],
    }


async def test_the_scheduling_context_of_a_pod_names_its_nodes(cluster: Cluster) -> None:
    for node in ("node-0", "node-1", "node-2"):
        await cluster.create("Node", node)
        # A new node is not ready, and tainted so.
        await cluster.client.patch(NODES.skip_decoding, node, {"spec": {"taints": None}})
    for node in ("node-0", "node-1"):
        spec = {
            "driver": "gpu.nvidia.com",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        }
        await cluster.create("ResourceSlice", node, spec=spec)
    async with _run_translation(cluster):
        await _training(cluster)
        claim = await _wait_for_claim(cluster, "training-gpus")

        async def context(**wanted: Any) -> bool:
            try:
                found = await cluster.client.get(CONTEXTS, "training", "default")
            except NotFound:
                return False
            return found.spec == wanted["spec"] and found.status == {"resourceClaims": wanted["claims"]}

        potential = ["node-0", "node-1"]
        await cluster.until(lambda: context(spec={"potentialNodes": potential}, claims=[{"name": "gpu"}]))
        late = {
            "driver": "gpu.nvidia.com",
            "nodeName": "node-2",
            "pool": {"name": "node-2", "generation": 1, "resourceSliceCount": 1},
        }
        await cluster.create("ResourceSlice", "node-2", spec=late)
        potential = ["node-0", "node-1", "node-2"]
        await cluster.until(lambda: context(spec={"potentialNodes": potential}, claims=[{"name": "gpu"}]))
        [pod] = await cluster.items("Pod")
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        await cluster.set_status("Pod", pod, conditions=[condition])
        unsuitable = [{"name": "gpu", "unsuitableNodes": potential}]
        await cluster.until(lambda: context(spec={"potentialNodes": potential}, claims=unsuitable))
        await _allocate(cluster, claim, "gpu-0")
        spec = {"potentialNodes": potential, "selectedNode": "node-1"}
        await cluster.until(lambda: context(spec=spec, claims=[{"name": "gpu"}]))
        await cluster.delete("Pod", "training", grace_period=0)

        async def is_gone() -> bool:
            return not (await cluster.client.list(CONTEXTS, "default")).items

        await cluster.until(is_gone)


async def test_a_pod_that_is_observed_before_its_claim_gets_a_context(cluster: Cluster) -> None:
    pods = [document for document in _documents() if document["kind"] == "Pod"]
    for document in pods:
        await _post(cluster, document)
    async with _run_translation(cluster):
        for document in _documents():
            if document not in pods:
                await _post(cluster, document)

        async def there() -> bool:
            contexts = await cluster.client.list(CONTEXTS, "default")
            return [one.status for one in contexts.items] == [{"resourceClaims": [{"name": "gpu"}]}]

        await cluster.until(there)


async def test_a_classic_claim_with_immediate_allocation_is_marked_for_the_scheduler(
    cluster: Cluster,
) -> None:
    class_ = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceClass", "metadata": {"name": "c"}}
    claim = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceClaim", "metadata": {"name": "now"}}
    async with _run_translation(cluster):
        await _post(cluster, {**class_, "driverName": "gpu.nvidia.com"})
        await _post(cluster, {**claim, "spec": {"resourceClassName": "c", "allocationMode": "Immediate"}})
        made = await _wait_for_claim(cluster, "now")
    assert made.metadata.annotations[IMMEDIATE_ANNOTATION] == "Immediate"


async def test_current_objects_are_deleted_with_their_classic_objects(cluster: Cluster) -> None:
    async with _run_translation(cluster):
        await _training(cluster)
        await _wait_for_claim(cluster, "training-gpus")
    # Deleted while no controller runs: the next start notices it.
    await cluster.client.delete(CLAIMS, "training-gpus", "default")
    await cluster.client.delete(CLASSES, "gpu.nvidia.com")
    async with _run_translation(cluster):

        async def is_gone() -> bool:
            classes = [one.metadata.name for one in (await cluster.client.list(DEVICE_CLASSES)).items]
            return await _today(cluster, "training-gpus") is None and classes == ["large-gpu"]

        await cluster.until(is_gone)


async def test_a_foreign_object_with_the_same_name_is_not_changed(cluster: Cluster) -> None:
    request = {"name": "own", "exactly": {"deviceClassName": "other"}}
    own = await cluster.create("ResourceClaim", "training-gpus", spec={"devices": {"requests": [request]}})
    async with _run_translation(cluster):
        await _training(cluster)

        async def is_warned() -> bool:
            events = (await cluster.client.raw("GET", "/api/v1/namespaces/default/events")).json()["items"]
            return any(event["reason"] == "NotTranslated" for event in events)

        await cluster.until(is_warned)
    found = await _today(cluster, "training-gpus")
    assert found is not None
    assert found.metadata.resource_version == own.metadata.resource_version


async def test_a_claim_from_a_template_appears_as_a_classic_claim(cluster: Cluster) -> None:
    template = {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu"},
        "spec": {"spec": {"resourceClassName": "gpu.nvidia.com"}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "x"}],
            "resourceClaims": [{"name": "gpu", "source": {"resourceClaimTemplateName": "one-gpu"}}],
        },
    }
    async with _run_translation(cluster, "resourceclaim-controller"):
        await _post(cluster, template)
        await _post(cluster, pod)

        async def is_shown() -> bool:
            items = (await cluster.client.list(CLAIMS, "default")).items
            return any(one.spec.get("resourceClassName") == "gpu.nvidia.com" for one in items)

        await cluster.until(is_shown)
        [claim] = (await cluster.client.list(RESOURCE_CLAIMS, "default")).items
        assert claim.metadata.annotations[TEMPLATE] == "one-gpu"
        await cluster.delete("ResourceClaim", claim.metadata.name)

        async def is_replaced() -> bool:
            items = (await cluster.client.list(CLAIMS, "default")).items
            return claim.metadata.name not in {one.metadata.name for one in items}

        await cluster.until(is_replaced)


async def test_classic_objects_are_deleted_with_their_namespace(cluster: Cluster) -> None:
    await cluster.create("Namespace", "work")
    body = {"metadata": {"name": "t"}, "spec": {"spec": {"resourceClassName": "gpu.nvidia.com"}}}
    await cluster.client.create(TEMPLATES, convert(TEMPLATES, body), "work")
    async with _run_translation(cluster, "namespace-controller"):

        async def is_translated() -> bool:
            return bool((await cluster.client.list(RESOURCE_CLAIM_TEMPLATES, "work")).items)

        await cluster.until(is_translated)
        await cluster.delete("Namespace", "work")

        async def is_gone() -> bool:
            return not (await cluster.client.list(TEMPLATES)).items

        await cluster.until(is_gone)


async def test_controllers_are_ready_if_classic_dra_is_not_served(tmp_path: Path) -> None:
    async with (
        ApiServer(Config(port=0, data=tmp_path, database=IN_MEMORY)) as server,
        Client(server.url) as client,
        controllers(Cluster(server.url, client), _NAME) as manager,
    ):
        await manager.wait_until_synced()
        assert manager.ready
        assert set(manager.controllers) == {_NAME}


async def test_a_device_class_is_kept_if_its_classic_class_was_not_observed_yet() -> None:
    today = {
        "kind": "DeviceClass",
        "metadata": {"name": "gpu", "annotations": {CLASSIC_UID_ANNOTATION: "classic"}},
        "spec": {},
    }
    classic = {"kind": "ResourceClass", "metadata": {"name": "gpu", "uid": "classic"}}
    api = FakeApi(today, classic, kinds=(CLASSES,))
    client, clock = api.client(), FakeClock()
    context = Context(client, InformerFactory(client, clock), clock, FeatureGates(), CollectorRegistry())
    translator = Translator(context, WorkQueue(clock))
    translator._informers.informer(DEVICE_CLASSES)._apply(convert(DEVICE_CLASSES, api.of("deviceclasses")[0]))
    await translator.reconcile(f"{CLASSES.group_resource} gpu")
    assert api.of("deviceclasses")
    api.remove("resourceclasses", "", "gpu")
    await translator.reconcile(f"{CLASSES.group_resource} gpu")
    assert not api.of("deviceclasses")
