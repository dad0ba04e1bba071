"""The Kubernetes project's own Python client."""

import json
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from dra_shared.version import DEFAULT, release
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.rest import ApiException
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock

from tests.integration.clients.objects import claim, deployment, gpu_pod, template
from tests.support.reference import REPOSITORY
from tests.support.waiting import blocking_until

# The client leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def api(kubeconfig: Path) -> Iterator[Any]:
    with config.new_client_from_config(str(kubeconfig)) as made:
        yield made


@pytest.fixture
def name() -> str:
    return f"o-{uuid.uuid4().hex[:8]}"


def test_version_groups_and_kinds_are_discovered(api: Any) -> None:
    assert client.VersionApi(api).get_code().minor == str(DEFAULT.minor)
    groups = {group.name for group in client.ApisApi(api).get_api_versions().groups}
    assert {"apps", "batch", "resource.k8s.io", "scheduling.k8s.io"} <= groups
    kinds = {item.kind for item in client.ResourceV1Api(api).get_api_resources().resources}
    assert {"DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"} <= kinds


def test_every_list_is_decoded_into_typed_objects(api: Any) -> None:
    core, apps, batch = client.CoreV1Api(api), client.AppsV1Api(api), client.BatchV1Api(api)
    assert len(core.list_node().items) == 2
    kubelets = {node.status.node_info.kubelet_version for node in core.list_node().items}
    assert kubelets == {release(DEFAULT).git_version}
    slices = client.ResourceV1Api(api).list_resource_slice().items
    assert {item.spec.driver for item in slices} == {"gpu.nvidia.com"}
    for listing in (
        core.list_namespace,
        core.list_pod_for_all_namespaces,
        core.list_service_account_for_all_namespaces,
        core.list_event_for_all_namespaces,
        core.list_config_map_for_all_namespaces,
        apps.list_deployment_for_all_namespaces,
        apps.list_daemon_set_for_all_namespaces,
        batch.list_job_for_all_namespaces,
        client.ResourceV1Api(api).list_device_class,
        client.ResourceV1beta2Api(api).list_resource_slice,
        client.ResourceV1beta1Api(api).list_resource_slice,
        client.SchedulingV1Api(api).list_priority_class,
        client.StorageV1Api(api).list_storage_class,
        client.PolicyV1Api(api).list_pod_disruption_budget_for_all_namespaces,
        client.RbacAuthorizationV1Api(api).list_cluster_role,
        client.CoordinationV1Api(api).list_lease_for_all_namespaces,
    ):
        assert listing().metadata.resource_version


def test_a_pod_with_a_claim_runs_and_is_deleted(api: Any, name: str) -> None:
    core, resources = client.CoreV1Api(api), client.ResourceV1Api(api)
    resources.create_namespaced_resource_claim_template("default", template(name))
    core.create_namespaced_pod("default", gpu_pod(name, name, "echo $0 hello; sleep 1000"))
    phases = []
    for event in watch.Watch().stream(
        core.list_namespaced_pod, "default", label_selector=f"app={name}", timeout_seconds=60
    ):
        phases.append(event["object"].status.phase)
        if phases[-1] == "Running":
            break
    assert phases[-1] == "Running"
    (generated,) = [
        item for item in resources.list_namespaced_resource_claim("default").items
        if item.metadata.owner_references and item.metadata.owner_references[0].name == name
    ]  # fmt: skip
    (result,) = generated.status.allocation.devices.results
    assert result.driver == "gpu.nvidia.com"
    assert generated.status.reserved_for[0].name == name
    blocking_until(lambda: "hello" in core.read_namespaced_pod_log(name, "default"))
    core.delete_namespaced_pod(name, "default")

    def is_gone() -> bool:
        return not core.list_namespaced_pod("default", label_selector=f"app={name}").items

    blocking_until(is_gone)

    def is_released() -> bool:
        names = [item.metadata.name for item in resources.list_namespaced_resource_claim("default").items]
        return generated.metadata.name not in names

    blocking_until(is_released)


def test_errors_have_the_status_of_the_server(api: Any, name: str) -> None:
    core = client.CoreV1Api(api)
    with pytest.raises(ApiException) as missing:
        core.read_namespaced_pod(name, "default")
    assert (missing.value.status, missing.value.reason) == (404, "Not Found")
    body = {"metadata": {"name": name}, "data": {"a": "b"}}
    made = core.create_namespaced_config_map("default", body)
    with pytest.raises(ApiException) as twice:
        core.create_namespaced_config_map("default", body)
    assert twice.value.status == 409
    core.patch_namespaced_config_map(name, "default", {"data": {"a": "c"}})
    made.data = {"a": "d"}
    with pytest.raises(ApiException) as late:
        core.replace_namespaced_config_map(name, "default", made)
    assert late.value.status == 409
    assert '"reason":"Conflict"' in late.value.body
    core.delete_namespaced_config_map(name, "default")


def test_lists_are_read_in_pages(api: Any, name: str) -> None:
    core = client.CoreV1Api(api)
    for index in range(5):
        core.create_namespaced_config_map(
            "default", {"metadata": {"name": f"{name}-{index}", "labels": {"page": name}}}
        )
    names: list[str] = []
    more = None
    while more != "":
        page = core.list_namespaced_config_map(
            "default", limit=2, _continue=more, label_selector=f"page={name}"
        )
        names += [item.metadata.name for item in page.items]
        more = page.metadata._continue or ""
    assert names == [f"{name}-{index}" for index in range(5)]
    core.delete_collection_namespaced_config_map("default", label_selector=f"page={name}")
    assert not core.list_namespaced_config_map("default", label_selector=f"page={name}").items


def test_a_watch_returns_each_change_in_order(api: Any, name: str) -> None:
    core = client.CoreV1Api(api)
    listed = core.list_namespaced_config_map("default")
    seen: list[tuple[str, str]] = []
    stream = watch.Watch()

    def reflect() -> None:
        for event in stream.stream(
            core.list_namespaced_config_map,
            "default",
            resource_version=listed.metadata.resource_version,
            field_selector=f"metadata.name={name}",
            timeout_seconds=60,
        ):
            seen.append((event["type"], (event["object"].data or {}).get("n", "")))
            if event["type"] == "DELETED":
                stream.stop()

    thread = threading.Thread(target=reflect)
    thread.start()
    core.create_namespaced_config_map("default", {"metadata": {"name": name}, "data": {"n": "0"}})
    for number in range(1, 20):
        core.patch_namespaced_config_map(name, "default", {"data": {"n": str(number)}})
    core.delete_namespaced_config_map(name, "default")
    thread.join(60)
    changes = [("MODIFIED", str(number)) for number in range(1, 20)]
    assert seen == [("ADDED", "0"), *changes, ("DELETED", "19")]


def test_a_deployment_is_scaled_and_an_evicted_pod_is_replaced(api: Any, name: str) -> None:
    apps, core = client.AppsV1Api(api), client.CoreV1Api(api)
    apps.create_namespaced_deployment("default", deployment(name, 1))
    apps.patch_namespaced_deployment_scale(name, "default", {"spec": {"replicas": 3}})

    def ready() -> bool:
        return bool(apps.read_namespaced_deployment_status(name, "default").status.ready_replicas == 3)

    blocking_until(ready)
    assert apps.read_namespaced_deployment_scale(name, "default").status.selector == f"app={name}"
    victim = core.list_namespaced_pod("default", label_selector=f"app={name}").items[0].metadata.name
    core.create_namespaced_pod_eviction(
        victim, "default", client.V1Eviction(metadata=client.V1ObjectMeta(name=victim))
    )

    def is_replaced() -> bool:
        names = {item.metadata.name for item in core.list_namespaced_pod("default").items}
        return victim not in names and ready()

    blocking_until(is_replaced)
    apps.delete_namespaced_deployment(name, "default", propagation_policy="Foreground")
    blocking_until(lambda: not core.list_namespaced_pod("default", label_selector=f"app={name}").items)


def test_the_dynamic_client_creates_applies_and_lists_claims(api: Any, name: str, tmp_path: Path) -> None:
    # The client caches discovery, by default in the folder of temporary files.
    found = dynamic.DynamicClient(api, cache_file=str(tmp_path / "discovery.json"))
    claims = found.resources.get(api_version="resource.k8s.io/v1", kind="ResourceClaim")
    assert claims.create(body=claim(name), namespace="default").metadata.name == name
    applied = found.server_side_apply(
        claims, body={**claim(name), "metadata": {"name": name, "labels": {"a": "b"}}},
        name=name, namespace="default", field_manager="dynamic", force_conflicts=True,
    )  # fmt: skip
    assert applied.metadata.labels.a == "b"
    assert [item.metadata.name for item in claims.get(namespace="default", label_selector="a=b").items] == [
        name
    ]
    claims.delete(name=name, namespace="default")


def test_leader_election_acquires_and_loses_a_lease(api: Any, name: str) -> None:
    client.Configuration.set_default(api.configuration)
    led = threading.Event()
    stopped = threading.Event()

    def lead() -> None:
        led.set()

    # The stolen lease lasts longer than this test, so it is not acquired again.
    settings = electionconfig.Config(
        ConfigMapLock(name, "default", "me"), lease_duration=90, renew_deadline=3, retry_period=1,
        onstarted_leading=lead, onstopped_leading=stopped.set,
    )  # fmt: skip
    elector = threading.Thread(target=leaderelection.LeaderElection(settings).run)
    elector.start()
    assert led.wait(60)
    core = client.CoreV1Api(api)
    key = "control-plane.alpha.kubernetes.io/leader"
    record = core.read_namespaced_config_map(name, "default").metadata.annotations[key]
    assert '"holderIdentity": "me"' in record
    stolen = {"metadata": {"annotations": {key: record.replace('"me"', '"other"')}}}
    core.patch_namespaced_config_map(name, "default", stolen)
    assert stopped.wait(60)
    elector.join(60)


@pytest.mark.parametrize("name", sorted(path.name for path in (REPOSITORY / "examples").iterdir()))
def test_our_examples_are_accepted_by_typed_clients(api: Any, name: str) -> None:
    """Quantities must be strings, as in the API's types."""
    for file in sorted((REPOSITORY / "examples" / name).glob("*.yaml")):
        for obj in yaml.safe_load_all(file.read_text()):
            version = obj.get("apiVersion", "")
            # The client has no types for these.
            if not version or version.startswith(("scheduling.k8s.io/v1alpha", "resource.nvidia.com/")):
                continue
            if "namespace" in obj["metadata"]:
                obj["metadata"]["namespace"] = "default"
            utils.create_from_dict(api, obj, dry_run="All")


def test_a_quantity_is_returned_as_a_string(api: Any, name: str) -> None:
    """kube-apiserver decodes objects into Go types and encodes them again, after which a Quantity is a string."""
    body = deployment(name, 0)
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"example.com/gpu": 2}, "requests": {"cpu": 0.5}}
    path, kind = "/apis/apps/v1/namespaces/default/deployments", "Deployment"
    answers = [_raw(api, "POST", path, "application/json", body)]
    for number, media_type in enumerate(
        (
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
        ),
        start=3,
    ):
        limits = {**container, "resources": {"limits": {"example.com/gpu": number}}}
        patch = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": {"template": {"spec": {"containers": [limits]}}},
        }
        answers.append(
            _raw(api, "PATCH", f"{path}/{name}?fieldManager=test&force=true", media_type, patch)
            if "apply" in media_type
            else _raw(api, "PATCH", f"{path}/{name}", media_type, patch)
        )
    limits_path = "/spec/template/spec/containers/0/resources/limits"
    patched = [{"op": "replace", "path": limits_path, "value": {"cpu": 7}}]
    answers.append(_raw(api, "PATCH", f"{path}/{name}", "application/json-patch+json", patched))
    container["resources"] = {"limits": {"cpu": 1000}}
    answers.append(_raw(api, "PUT", f"{path}/{name}", "application/json", body))
    found = [answer["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] for answer in answers]
    assert [list(limits.values()) for limits in found] == [["2"], ["3"], ["4"], ["5"], ["7"], ["1k"]]
    typed = client.AppsV1Api(api).read_namespaced_deployment(name, "default")
    assert typed.spec.template.spec.containers[0].resources.limits == {"cpu": "1k"}


def _raw(api: Any, method: str, path: str, media_type: str, body: Any) -> Any:
    answer = httpx.request(
        method, api.configuration.host + path, content=json.dumps(body), headers={"Content-Type": media_type}
    )
    assert answer.status_code < 300, answer.text
    return answer.json()
