"""Quotas: the API server rejects objects that exceed them, and the controller reports the usage."""

import asyncio
from typing import Any

import pytest
from dra_shared.api.codec import convert
from dra_shared.api.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, SERVICES
from dra_shared.client.errors import Forbidden

from tests.controller.cluster import POD_SPEC, Cluster, controllers

_DEVICES = "gpu.example.com.deviceclass.resource.k8s.io/devices"


def _claim(count: int) -> dict[str, Any]:
    exactly = {"deviceClassName": "gpu.example.com", "count": count}
    return {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}


def _pod(**requests: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}}


async def test_a_quota_limits_the_devices_of_a_class(cluster: Cluster) -> None:
    await cluster.create("ResourceQuota", "few", spec={"hard": {_DEVICES: "3"}})
    await cluster.create("ResourceClaim", "one", **_claim(2))
    with pytest.raises(Forbidden) as refused:
        await cluster.create("ResourceClaim", "two", **_claim(2))
    assert str(refused.value) == (
        'resourceclaims.resource.k8s.io "two" is forbidden: exceeded quota: few, '
        f"requested: {_DEVICES}=2, used: {_DEVICES}=2, limited: {_DEVICES}=3"
    )
    await cluster.delete("ResourceClaim", "one")
    await cluster.create("ResourceClaim", "two", **_claim(3))


async def test_concurrent_requests_do_not_exceed_a_quota(cluster: Cluster) -> None:
    await cluster.create("ResourceQuota", "few", spec={"hard": {"pods": "3", "count/configmaps": "2"}})
    pods = [cluster.create("Pod", f"p{number}", spec=POD_SPEC) for number in range(8)]
    maps = [cluster.create("ConfigMap", f"m{number}") for number in range(8)]
    outcomes = await asyncio.gather(*pods, *maps, return_exceptions=True)
    refused = [isinstance(outcome, Forbidden) for outcome in outcomes]
    assert (refused[:8].count(True), refused[8:].count(True)) == (5, 6)
    assert len(await cluster.items("Pod")) == 3


async def test_a_pod_must_specify_the_limited_resources(cluster: Cluster) -> None:
    await cluster.create("ResourceQuota", "cpu", spec={"hard": {"requests.cpu": "1", "limits.memory": "1Gi"}})
    with pytest.raises(Forbidden, match=r"failed quota: cpu: must specify limits\.memory for: c$"):
        await cluster.create("Pod", "p", **_pod(cpu="500m"))


async def test_a_finished_pod_does_not_count_toward_the_quota(cluster: Cluster) -> None:
    await cluster.create("ResourceQuota", "cpu", spec={"hard": {"requests.cpu": "1"}})
    pod = await cluster.create("Pod", "first", **_pod(cpu="700m"))
    with pytest.raises(Forbidden, match=r"requested: requests.cpu=500m, used: requests.cpu=700m, limited: "):
        await cluster.create("Pod", "second", **_pod(cpu="500m"))
    await cluster.set_status("Pod", pod, phase="Succeeded")
    await cluster.create("Pod", "second", **_pod(cpu="500m"))


async def test_the_usage_in_the_status_is_updated(cluster: Cluster) -> None:
    async with controllers(cluster, "resourcequota-controller"):
        await cluster.create("ResourceQuota", "q", spec={"hard": {"pods": "2", _DEVICES: "8"}})
        await cluster.create("Pod", "p", spec=POD_SPEC)
        await cluster.create("ResourceClaim", "c", **_claim(5))

        async def is_reported() -> bool:
            quota = await cluster.get("ResourceQuota", "q")
            return quota is not None and quota.status.used == {"pods": "1", _DEVICES: "5"}

        await cluster.until(is_reported)
        await cluster.delete("Pod", "p", grace_period=0)

        async def is_freed() -> bool:
            quota = await cluster.get("ResourceQuota", "q")
            return quota is not None and quota.status.used == {"pods": "0", _DEVICES: "5"}

        await cluster.until(is_freed)


async def test_only_pods_count_for_a_quota_with_scopes(cluster: Cluster) -> None:
    hard = {"pods": "2", _DEVICES: "8", "count/configmaps": "3"}
    async with controllers(cluster, "resourcequota-controller"):
        await cluster.create("ConfigMap", "m")
        await cluster.create("ResourceClaim", "c", **_claim(5))
        await cluster.create("Pod", "p", spec=POD_SPEC)
        await cluster.create("ResourceQuota", "q", spec={"hard": hard, "scopes": ["NotTerminating"]})

        async def is_reported() -> bool:
            quota = await cluster.get("ResourceQuota", "q")
            expected = {"pods": "1", _DEVICES: "0", "count/configmaps": "0"}
            return quota is not None and quota.status.used == expected

        await cluster.until(is_reported)


_NAMES = ("example.com/gpu", "deviceclass.resource.kubernetes.io/gpu.example.com")


async def _limit(cluster: Cluster, name: str) -> None:
    device_class = {
        "metadata": {"name": "gpu.example.com"},
        "spec": {"extendedResourceName": "example.com/gpu"},
    }
    await cluster.client.create(DEVICE_CLASSES, convert(DEVICE_CLASSES, device_class))
    await cluster.create("ResourceQuota", "q", spec={"hard": {f"requests.{name}": "2"}})


def _gpu_pod(name: str) -> dict[str, Any]:
    amount = {name: "1"}
    resources = {"requests": amount, "limits": amount}
    return {"spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}}


def _own_claim(pod: Any) -> dict[str, Any]:
    """Return a claim as the scheduler creates it for a pod's extended resource."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p1", "uid": pod.metadata.uid, "controller": True}
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    return {"metadata": {"annotations": annotations, "ownerReferences": [owner]}, **_claim(1)}


@pytest.mark.parametrize("name", _NAMES)
async def test_claims_are_rejected_if_pods_use_all_of_an_extended_resource(
    cluster: Cluster, name: str
) -> None:
    await _limit(cluster, name)
    for number in (1, 2):
        await cluster.create("Pod", f"p{number}", **_gpu_pod(name))
    with pytest.raises(Forbidden) as refused:
        await cluster.create("ResourceClaim", "c", **_claim(1))
    full = f"requests.{name}"
    assert str(refused.value) == (
        'resourceclaims.resource.k8s.io "c" is forbidden: exceeded quota: q, '
        f"requested: {full}=1, used: {full}=2, limited: {full}=2"
    )


@pytest.mark.parametrize("name", _NAMES)
async def test_pods_are_rejected_if_claims_use_all_of_an_extended_resource(
    cluster: Cluster, name: str
) -> None:
    await _limit(cluster, name)
    await cluster.create("ResourceClaim", "c", **_claim(2))
    with pytest.raises(Forbidden) as refused:
        await cluster.create("Pod", "p", **_gpu_pod(name))
    full = f"requests.{name}"
    assert str(refused.value) == (
        f'pods "p" is forbidden: exceeded quota: q, requested: {full}=1, used: {full}=2, limited: {full}=2'
    )


@pytest.mark.parametrize("name", _NAMES)
async def test_a_claim_for_the_extended_resource_of_a_pod_is_counted_once(
    cluster: Cluster, name: str
) -> None:
    await _limit(cluster, name)
    pod = await cluster.create("Pod", "p1", **_gpu_pod(name))
    await cluster.create("Pod", "p2", **_gpu_pod(name))
    await cluster.create("ResourceClaim", "own", **_own_claim(pod))
    with pytest.raises(Forbidden, match="exceeded quota"):
        await cluster.create("ResourceClaim", "second", **_own_claim(pod))

    async def is_counted() -> bool:
        quota = await cluster.get("ResourceQuota", "q")
        return quota is not None and quota.status.used == {f"requests.{name}": "2"}

    async with controllers(cluster, "resourcequota-controller"):
        await cluster.until(is_counted)


async def test_a_claim_without_its_owner_pod_is_counted_separately(cluster: Cluster) -> None:
    await _limit(cluster, _NAMES[0])
    pod = await cluster.create("Pod", "p1", **_gpu_pod(_NAMES[0]))
    await cluster.create("Pod", "p2", **_gpu_pod(_NAMES[0]))
    claim = await cluster.create("ResourceClaim", "own", **_own_claim(pod))
    await cluster.client.patch(
        RESOURCE_CLAIMS, "own", {"metadata": {"labels": {"a": "b"}}}, claim.metadata.namespace
    )
    with pytest.raises(Forbidden, match="exceeded quota: q"):
        await cluster.client.patch(
            RESOURCE_CLAIMS, "own", {"metadata": {"ownerReferences": None}}, claim.metadata.namespace
        )


async def test_a_pod_that_gets_a_deadline_is_counted_in_its_new_scope(cluster: Cluster) -> None:
    spec = {"hard": {"pods": "0"}, "scopes": ["Terminating"]}
    await cluster.create("ResourceQuota", "q", spec=spec)
    await cluster.create("Pod", "p", spec=POD_SPEC)
    with pytest.raises(
        Forbidden, match="exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"
    ):
        await cluster.client.patch(PODS, "p", {"spec": {"activeDeadlineSeconds": 60}}, "default")


async def test_pod_level_resources_satisfy_the_quota(cluster: Cluster) -> None:
    await cluster.create("ResourceQuota", "cpu", spec={"hard": {"requests.cpu": "2"}})
    pod = {"containers": [{"name": "c", "image": "i"}], "resources": {"requests": {"cpu": "1500m"}}}
    await cluster.create("Pod", "first", spec=pod)
    with pytest.raises(Forbidden, match=r"requested: requests\.cpu=1500m, used: "):
        await cluster.create("Pod", "second", spec=pod)


def _service(kind: str, *ports: int, **spec: Any) -> dict[str, Any]:
    return {"spec": {"type": kind, "ports": [{"name": f"p{port}", "port": port} for port in ports], **spec}}


def _storage(amount: str, **spec: Any) -> dict[str, Any]:
    return {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": amount}},
            **spec,
        }
    }


async def _wait_for_usage(cluster: Cluster, **expected: str) -> None:
    async def is_counted() -> bool:
        quota = await cluster.get("ResourceQuota", "q")
        return quota is not None and quota.status.used == expected

    async with controllers(cluster, "resourcequota-controller"):
        await cluster.until(is_counted)


async def test_node_ports_and_load_balancers_of_services_are_counted(cluster: Cluster) -> None:
    # The API server's own service is in the namespace, too.
    hard = {"services": "4", "services.nodeports": "3", "services.loadbalancers": "1"}
    await cluster.create("ResourceQuota", "q", spec={"hard": hard})
    await cluster.create("Service", "plain", **_service("ClusterIP", 80, 81, 82))
    await cluster.create("Service", "ports", **_service("NodePort", 80, 81))
    with pytest.raises(Forbidden, match=r"requested: services\.nodeports=2, used: services\.nodeports=2, "):
        await cluster.create("Service", "more", **_service("NodePort", 80, 81))
    await cluster.create(
        "Service", "balancer", **_service("LoadBalancer", 80, allocateLoadBalancerNodePorts=False)
    )
    change = {"spec": {"type": "LoadBalancer"}}
    with pytest.raises(Forbidden, match=r"exceeded quota: q, requested: services\.loadbalancers=1,"):
        await cluster.client.patch(SERVICES, "plain", change, "default")
    await _wait_for_usage(
        cluster, **{"services": "4", "services.nodeports": "2", "services.loadbalancers": "1"}
    )


async def test_storage_of_volume_claims_is_counted_by_class(cluster: Cluster) -> None:
    fast = "fast.storageclass.storage.k8s.io"
    hard = {
        "requests.storage": "10Gi",
        f"{fast}/requests.storage": "4Gi",
        f"{fast}/persistentvolumeclaims": "1",
    }
    await cluster.create("ResourceQuota", "q", spec={"hard": hard})
    await cluster.create("PersistentVolumeClaim", "slow", **_storage("5Gi", storageClassName="slow"))
    await cluster.create("PersistentVolumeClaim", "fast", **_storage("3Gi", storageClassName="fast"))
    with pytest.raises(
        Forbidden, match=r"requested: fast\.storageclass\.storage\.k8s\.io/persistentvolumeclaims=1,"
    ):
        await cluster.create("PersistentVolumeClaim", "second", **_storage("1Gi", storageClassName="fast"))
    with pytest.raises(Forbidden, match=r"requested: requests\.storage=3Gi, used: requests\.storage=8Gi, "):
        await cluster.create("PersistentVolumeClaim", "third", **_storage("3Gi", storageClassName="slow"))
    await _wait_for_usage(
        cluster,
        **{
            "requests.storage": "8Gi",
            f"{fast}/requests.storage": "3Gi",
            f"{fast}/persistentvolumeclaims": "1",
        },
    )


async def test_volume_claims_are_only_in_the_scope_of_their_attributes_class(cluster: Cluster) -> None:
    scope = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]}
    spec = {"hard": {"persistentvolumeclaims": "1"}, "scopeSelector": {"matchExpressions": [scope]}}
    await cluster.create("ResourceQuota", "q", spec=spec)
    for name in ("plain", "other"):
        await cluster.create("PersistentVolumeClaim", name, **_storage("1Gi"))
    gold = _storage("1Gi", volumeAttributesClassName="gold")
    await cluster.create("PersistentVolumeClaim", "gold", **gold)
    with pytest.raises(Forbidden, match="exceeded quota: q"):
        await cluster.create("PersistentVolumeClaim", "more", **gold)
    await _wait_for_usage(cluster, persistentvolumeclaims="1")


async def test_pods_with_affinity_to_other_namespaces_are_in_a_separate_scope(cluster: Cluster) -> None:
    await cluster.create(
        "ResourceQuota", "q", spec={"hard": {"pods": "0"}, "scopes": ["CrossNamespacePodAffinity"]}
    )
    await cluster.create("Pod", "plain", spec=POD_SPEC)
    term = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    with pytest.raises(Forbidden, match="exceeded quota: q"):
        await cluster.create("Pod", "p", spec={**POD_SPEC, "affinity": affinity})
