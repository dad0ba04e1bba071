"""Test the defaults that admission sets and the requests that it rejects, through HTTP."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver import admission
from dra_apiserver.config import Config
from dra_apiserver.kinds import catalog
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY, Database, engine
from dra_shared.features import FeatureGates
from dra_shared.version import V1_36, V1_37, Version

CORE = "/api/v1/namespaces/default"
PODS = f"{CORE}/pods"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def pod(name: str = "p", resources: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "image": "i"}
    if resources is not None:
        container["resources"] = resources
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], **spec},
    }


async def create(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await client.post(path, json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def limit(client: httpx.AsyncClient, **item: Any) -> None:
    meta = {"name": "limits"}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": [item]}}
    await create(client, f"{CORE}/limitranges", body)


async def test_a_limit_range_sets_default_requests_and_limits(client: httpx.AsyncClient) -> None:
    await limit(client, type="Container", default={"cpu": "500m"}, defaultRequest={"cpu": "100m"})
    made = await create(client, PODS, pod())
    assert made["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "100m"},
        "limits": {"cpu": "500m"},
    }
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    )
    assert made["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("item", "resources", "problem"),
    [
        (
            {"type": "Container", "max": {"memory": "1Gi"}},
            {"limits": {"memory": "2Gi"}},
            "maximum memory usage per Container is 1Gi, but limit is 2Gi",
        ),
        (
            {"type": "Pod", "min": {"memory": "1Gi"}},
            {},
            "minimum memory usage per Pod is 1Gi.  No request is specified",
        ),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000",
        ),
        (
            {"type": "Pod", "max": {"cpu": "2"}},
            {"limits": {"cpu": "3"}},
            "maximum cpu usage per Pod is 2, but limit is 3",
        ),
    ],
)
async def test_a_limit_range_rejects_pods_beyond_its_bounds(
    client: httpx.AsyncClient, item: dict[str, Any], resources: dict[str, Any], problem: str
) -> None:
    await limit(client, **item)
    answer = (await client.post(PODS, json=pod(resources=resources))).json()
    assert (answer["code"], answer["reason"]) == (403, "Forbidden")
    assert answer["message"] == f'pods "p" is forbidden: {problem}'


async def test_a_limit_range_rejects_a_large_claim(client: httpx.AsyncClient) -> None:
    await limit(client, type="PersistentVolumeClaim", max={"storage": "1Gi"})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"},
        "spec": spec,
    }
    answer = (await client.post(f"{CORE}/persistentvolumeclaims", json=body)).json()
    assert answer["message"].endswith(
        "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"
    )


def priority_class(name: str, value: int, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


async def test_a_pod_gets_the_default_priority_class(client: httpx.AsyncClient) -> None:
    body = priority_class("usual", 7, globalDefault=True, preemptionPolicy="Never")
    await create(client, CLASSES, body)
    spec = (await create(client, PODS, pod()))["spec"]
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == ("usual", 7, "Never")
    second = (await client.post(CLASSES, json=priority_class("other", 8, globalDefault=True))).json()
    assert second["message"] == (
        'priorityclasses.scheduling.k8s.io "other" is forbidden: PriorityClass usual is already marked as default. '
        "Only one default can exist"
    )


async def test_a_pod_gets_the_priority_of_its_priority_class(client: httpx.AsyncClient) -> None:
    body = pod(priorityClassName="system-node-critical", priority=1)
    answer = (await client.post(PODS, json=body)).json()
    assert "priority admission controller computed 2000001000" in answer["message"]
    spec = (await create(client, PODS, pod(priorityClassName="system-node-critical")))["spec"]
    assert spec["priority"] == 2000001000


@pytest.mark.parametrize("version", [V1_36, V1_37], ids=str)
async def test_a_pod_group_gets_the_priority_of_its_priority_class(tmp_path: Path, version: Version) -> None:
    """Check what upstream's TestAdmitPodGroup checks: a group's priority also applies to its pods."""
    since_1_37 = version >= V1_37
    more = {} if since_1_37 else {"GangScheduling": True, "WorkloadAwarePreemption": True}
    gates = FeatureGates(version, GenericWorkload=True, **more)
    config = Config(port=0, data=tmp_path, database=IN_MEMORY, runtime_config="api/all=true", features=gates)
    served = "v1beta1" if since_1_37 else "v1alpha2"
    path = f"/apis/scheduling.k8s.io/{served}/namespaces/default/podgroups"

    def group(**spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": f"scheduling.k8s.io/{served}",
            "kind": "PodGroup",
            "metadata": {"generateName": "g-"},
            "spec": {"schedulingPolicy": {"basic": {}}, **spec},
        }

    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        assert (await create(client, path, group()))["spec"]["priority"] == 0
        await create(client, CLASSES, priority_class("high", 9))
        await create(client, CLASSES, priority_class("usual", 7, globalDefault=True))
        spec = (await create(client, path, group()))["spec"]
        assert (spec["priorityClassName"], spec["priority"]) == ("usual", 7)
        assert (await create(client, path, group(priorityClassName="high", priority=9)))["spec"][
            "priority"
        ] == 9
        for wrong, why in (
            ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
            ({"priorityClassName": "high", "priority": 8}, "priority admission controller computed 9"),
        ):
            answer = await client.post(path, json=group(**wrong))
            assert (answer.status_code, why in answer.json()["message"]) == (403, True)


async def test_a_runtime_class_sets_overhead_and_node_selector(client: httpx.AsyncClient) -> None:
    refused = (await client.post(PODS, json=pod(runtimeClassName="vm"))).json()
    assert refused["message"] == 'pods "p" is forbidden: pod rejected: RuntimeClass "vm" not found'
    body = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "vm"},
        "handler": "vm",
        "overhead": {"podFixed": {"cpu": "10m"}},
        "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [{"key": "vm", "operator": "Exists"}]},
    }
    await create(client, "/apis/node.k8s.io/v1/runtimeclasses", body)
    spec = (await create(client, PODS, pod(runtimeClassName="vm", nodeSelector={"a": "b"})))["spec"]
    assert spec["overhead"] == {"cpu": "10m"}
    assert spec["nodeSelector"] == {"a": "b", "vm": "yes"}
    assert {"key": "vm", "operator": "Exists"} in spec["tolerations"]
    clash = (await client.post(PODS, json=pod("q", runtimeClassName="vm", nodeSelector={"vm": "no"}))).json()
    assert "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes" in clash["message"]


async def test_a_claim_gets_the_default_storage_class(client: httpx.AsyncClient) -> None:
    body = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "fast",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "example.com/x",
    }
    await create(client, "/apis/storage.k8s.io/v1/storageclasses", body)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"},
        "spec": spec,
    }
    made = await create(client, f"{CORE}/persistentvolumeclaims", claim)
    assert made["spec"]["storageClassName"] == "fast"
    assert made["status"] == {"phase": "Pending"}
    none = {**claim, "metadata": {"name": "d"}, "spec": {**spec, "storageClassName": ""}}
    assert (await create(client, f"{CORE}/persistentvolumeclaims", none))["spec"]["storageClassName"] == ""


async def test_a_gated_pod_is_created_with_the_scheduling_gated_condition(client: httpx.AsyncClient) -> None:
    status = (await create(client, PODS, pod(schedulingGates=[{"name": "example.com/wait"}])))["status"]
    condition = status["conditions"][0]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["reason"] == "SchedulingGated"
    assert condition["message"] == "Scheduling is blocked due to non-empty scheduling gates"


async def test_an_autoscaler_without_metrics_uses_cpu_utilization(client: httpx.AsyncClient) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    body = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": reference},
    }
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    made = await create(client, path, body)
    target = {"type": "Utilization", "averageUtilization": 80}
    assert made["spec"]["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    headers = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    cells = (await client.get(f"{path}/h", headers=headers)).json()["rows"][0]["cells"]
    assert cells[:6] == ["h", "Deployment/d", "cpu: <unknown>/80%", "1", 3, 0]
    bad = {
        **body,
        "metadata": {"name": "i"},
        "spec": {"maxReplicas": 0, "scaleTargetRef": {"kind": "D", "name": "d"}},
    }
    causes = (await client.post(path, json=bad)).json()["details"]["causes"]
    assert [(cause["field"], cause["message"]) for cause in causes] == [
        ("spec.maxReplicas", "Required value: must be set and greater than 0"),
        ("spec.maxReplicas", "Invalid value: 0: must be greater than or equal to `minReplicas`"),
        ("spec.scaleTargetRef.apiVersion", 'Invalid value: "": apiVersion must specify API group'),
    ]


async def test_component_statuses_are_computed_at_each_request(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/v1/componentstatuses")
    assert "ComponentStatus is deprecated" in answer.headers["warning"]
    found = {item["metadata"]["name"]: item["conditions"][0] for item in answer.json()["items"]}
    assert found["etcd-0"] == {"type": "Healthy", "status": "True", "message": "ok"}
    assert (await client.get("/api/v1/componentstatuses/nothing")).status_code == 404


TOKEN_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def account(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}, **fields}


async def test_the_service_account_token_is_mounted_into_every_container(client: httpx.AsyncClient) -> None:
    own = {"name": "own", "image": "i", "volumeMounts": [{"name": "mine", "mountPath": TOKEN_MOUNT}]}
    body = pod(volumes=[{"name": "mine", "emptyDir": {}}], initContainers=[{"name": "first", "image": "i"}])
    body["spec"]["containers"].append(own)
    spec = (await create(client, PODS, body))["spec"]
    mine, volume = spec["volumes"]
    assert mine["name"] == "mine"
    name = volume["name"]
    assert name.startswith("kube-api-access-")
    assert volume["projected"] == {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "namespace",
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                        }
                    ]
                }
            },
        ],
    }
    mount = {"name": name, "readOnly": True, "mountPath": TOKEN_MOUNT}
    assert spec["initContainers"][0]["volumeMounts"] == [mount]
    assert spec["containers"][0]["volumeMounts"] == [mount]
    assert spec["containers"][1]["volumeMounts"] == own["volumeMounts"]


async def test_a_pod_or_its_service_account_can_disable_the_token_volume(client: httpx.AsyncClient) -> None:
    await create(client, f"{CORE}/serviceaccounts", account("shy", automountServiceAccountToken=False))
    assert "volumes" not in (await create(client, PODS, pod(automountServiceAccountToken=False)))["spec"]
    assert "volumes" not in (await create(client, PODS, pod("q", serviceAccountName="shy")))["spec"]
    both = pod("r", serviceAccountName="shy", automountServiceAccountToken=True)
    assert len((await create(client, PODS, both))["spec"]["volumes"]) == 1


async def test_a_token_volume_that_the_pod_already_has_is_reused(client: httpx.AsyncClient) -> None:
    volume = {"name": "kube-api-access-mine", "emptyDir": {}}
    spec = (await create(client, PODS, pod(volumes=[volume])))["spec"]
    assert spec["volumes"] == [volume]
    assert spec["containers"][0]["volumeMounts"][0]["name"] == "kube-api-access-mine"


async def test_a_pod_of_a_missing_service_account_is_rejected(client: httpx.AsyncClient) -> None:
    answer = (await client.post(PODS, json=pod(serviceAccountName="driver"))).json()
    assert (answer["code"], answer["message"]) == (
        403,
        'pods "p" is forbidden: error looking up service account default/driver: '
        'serviceaccount "driver" not found',
    )


NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def node(name: str, *taints: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": list(taints)}}


async def test_a_new_node_has_the_not_ready_taint(client: httpx.AsyncClient) -> None:
    own = {"key": "own", "effect": "NoExecute"}
    made = await create(client, "/api/v1/nodes", node("n", own))
    assert made["spec"]["taints"] == [own, NOT_READY]
    again = await create(client, "/api/v1/nodes", node("m", NOT_READY))
    assert again["spec"]["taints"] == [NOT_READY]
    made["spec"]["taints"] = [own]
    changed = (await client.put("/api/v1/nodes/n", json=made)).json()
    assert changed["spec"]["taints"] == [own]


async def test_admission_plugins_can_be_disabled(tmp_path: Path) -> None:
    disabled = admission.disabled_plugins("ServiceAccount, TaintNodesByCondition", catalog.KINDS)
    config = Config(port=0, data=tmp_path, database=IN_MEMORY, disabled_plugins=disabled)
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        assert "taints" not in (await create(client, "/api/v1/nodes", node("n")))["spec"]
        spec = (await create(client, PODS, pod()))["spec"]
        assert "volumes" not in spec
        assert "serviceAccountName" not in spec
        assert spec["tolerations"]


async def test_an_update_adds_missing_default_tolerations_to_a_pod(tmp_path: Path) -> None:
    disabled = admission.disabled_plugins("DefaultTolerationSeconds", catalog.KINDS)
    before = Config(port=0, data=tmp_path, database=IN_MEMORY, disabled_plugins=disabled)
    kept = engine(Database(IN_MEMORY, before.directory))
    async with ApiServer(before) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        old = await create(client, PODS, pod())
        assert "tolerations" not in old["spec"]
    now = Config(port=0, data=tmp_path, database=IN_MEMORY)
    async with ApiServer(now) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        old["metadata"]["labels"] = {"new": "yes"}
        answer = (await client.put(f"{PODS}/{old['metadata']['name']}", json=old)).json()
    assert len(answer["spec"]["tolerations"]) == 2
    assert answer["metadata"]["generation"] == 2
    kept.close()


def test_disabling_an_unknown_plugin_is_an_error() -> None:
    with pytest.raises(ValueError, match=r'^disable-admission-plugins plugin "Taints" is unknown$'):
        admission.disabled_plugins("Priority,Taints", catalog.KINDS)
