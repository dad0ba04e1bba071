"""Device taint eviction against a real API server."""

from pathlib import Path
from typing import Any

import pytest
from dra_shared.api.codec import convert
from dra_shared.api.resources import DEVICE_CLASSES, DEVICE_TAINT_RULES, EVENTS
from dra_shared.features import FeatureGates
from dra_shared.taintrules import taint_rules
from dra_shared.version import V1_34

from tests.controller.cluster import CLAIM_SPEC, Cluster, api_server, controllers

_NAME = "device-taint-eviction-controller"
_GATES = FeatureGates(DRADeviceTaintRules=True)


def _slice(*taints: dict[str, Any]) -> dict[str, Any]:
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    devices: list[dict[str, Any]] = [
        {"name": f"gpu-{index}", "attributes": {"index": {"int": index}}} for index in range(2)
    ]
    devices[0]["taints"] = list(taints)
    return {"spec": {"driver": "gpu.example.com", "nodeName": "n1", "pool": pool, "devices": devices}}


def _rule(effect: str) -> dict[str, Any]:
    selector = {"driver": "gpu.example.com", "pool": "n1"}
    return {"spec": {"deviceSelector": selector, "taint": {"key": "example.com/repair", "effect": effect}}}


async def _create_old_rule(cluster: Cluster, gates: FeatureGates, rule: dict[str, Any]) -> None:
    rules = taint_rules(gates)
    assert rules is not None
    await cluster.client.create(rules, convert(rules, rule))


async def _create_running_pod(cluster: Cluster, *tolerations: dict[str, Any], name: str = "pod") -> None:
    """Create a pod on a node that uses gpu-0 through a claim with the pod's name."""
    spec = {
        "nodeName": "n1",
        "containers": [{"name": "c", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
    }
    pod = await cluster.create("Pod", name, spec=spec)
    claim = await cluster.create("ResourceClaim", name, spec=CLAIM_SPEC)
    result = {
        "request": "gpu",
        "driver": "gpu.example.com",
        "pool": "n1",
        "device": "gpu-0",
        "tolerations": list(tolerations),
    }
    consumer = {"resource": "pods", "name": name, "uid": pod.metadata.uid}
    await cluster.set_status(
        "ResourceClaim", claim, allocation={"devices": {"results": [result]}}, reservedFor=[consumer]
    )
    await cluster.set_status("Pod", pod, phase="Running")


async def _leaves(cluster: Cluster, name: str = "pod") -> bool:
    pod = await cluster.get("Pod", name)
    if pod is None:
        return True
    reasons = {
        condition.reason for condition in pod.status.conditions if condition.type == "DisruptionTarget"
    }
    return pod.metadata.deletion_timestamp is not None and reasons == {"DeletionByDeviceTaintManager"}


async def _says(cluster: Cluster, status: str, reason: str) -> bool:
    rule = await cluster.client.get(DEVICE_TAINT_RULES, "rule")
    return any(
        (entry.type, entry.status, entry.reason) == ("EvictionInProgress", status, reason)
        for entry in rule.status.conditions
    )


async def test_a_taint_in_a_slice_evicts_the_pod(cluster: Cluster) -> None:
    await _create_running_pod(cluster)
    async with controllers(cluster, _NAME):
        taint = {"key": "example.com/broken", "effect": "NoExecute"}
        await cluster.create("ResourceSlice", "slice", **_slice(taint))
        await cluster.until(lambda: _leaves(cluster))


async def test_a_pod_that_tolerates_the_taint_is_not_evicted(cluster: Cluster) -> None:
    await _create_running_pod(cluster, {"operator": "Exists", "effect": "NoExecute"}, name="tolerant")
    await _create_running_pod(cluster, name="sensitive")
    async with controllers(cluster, _NAME):
        taint = {"key": "example.com/broken", "effect": "NoExecute"}
        await cluster.create("ResourceSlice", "slice", **_slice(taint))
        await cluster.until(lambda: _leaves(cluster, "sensitive"))
    assert not await _leaves(cluster, "tolerant")


async def test_a_device_taint_rule_evicts_the_pod_and_reports_it(cluster: Cluster) -> None:
    await _create_running_pod(cluster)
    async with controllers(cluster, _NAME, gates=_GATES):
        await cluster.create("DeviceTaintRule", "rule", **_rule("NoExecute"))
        await cluster.until(lambda: _leaves(cluster))
        await cluster.until(lambda: _says(cluster, "True", "PodsPendingEviction"))


async def test_rules_of_1_34_evict_from_the_devices_of_their_class(tmp_path: Path) -> None:
    gates = FeatureGates(V1_34, DRADeviceTaints=True)
    toleration = {"operator": "Exists", "effect": "NoExecute"}

    async def rule(name: str, **selector: Any) -> None:
        spec = {"deviceSelector": selector, "taint": {"key": f"example.com/{name}", "effect": "NoExecute"}}
        await _create_old_rule(cluster, gates, {"metadata": {"name": name}, "spec": spec})

    async with api_server(tmp_path, gates) as cluster:
        await cluster.create("ResourceSlice", "slice", **_slice())
        await _create_running_pod(cluster, {**toleration, "key": "example.com/first"}, name="tolerant")
        await _create_running_pod(cluster, name="sensitive")
        await rule("missing", deviceClassName="missing")
        await rule("second", selectors=_expression("missing == 1"))
        async with controllers(cluster, _NAME, gates=gates):
            first = {"metadata": {"name": "first"}, "spec": {"selectors": _expression("index == 0")}}
            await cluster.client.create(DEVICE_CLASSES, convert(DEVICE_CLASSES, first))
            await rule("first", deviceClassName="first")
            await cluster.until(lambda: _leaves(cluster, "sensitive"))
            await cluster.until(lambda: _is_reported(cluster))
        assert not await _leaves(cluster, "tolerant")


@pytest.mark.parametrize("selector", [{}, {"deviceSelector": {}}])
async def test_rules_of_1_34_without_criteria_evict_from_all_devices(
    tmp_path: Path, selector: dict[str, Any]
) -> None:
    gates = FeatureGates(V1_34, DRADeviceTaints=True)
    async with api_server(tmp_path, gates) as cluster:
        await cluster.create("ResourceSlice", "slice", **_slice())
        await _create_running_pod(cluster)
        spec = {**selector, "taint": {"key": "example.com/all", "effect": "NoExecute"}}
        await _create_old_rule(cluster, gates, {"metadata": {"name": "all"}, "spec": spec})
        async with controllers(cluster, _NAME, gates=gates):
            await cluster.until(lambda: _leaves(cluster))


def _expression(text: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": f"device.attributes[device.driver].{text}"}}]


async def _is_reported(cluster: Cluster) -> bool:
    """True if there is an event about the expression that failed."""
    events = (await cluster.client.list(EVENTS, "default")).items
    return any(
        (event.involved_object.name, event.reason) == ("second", "CELRuntimeError")
        and event.message == "selector #0: runtime error: no such key: missing"
        for event in events
    )


async def test_a_rule_without_effect_reports_the_pods_that_it_would_evict(cluster: Cluster) -> None:
    await _create_running_pod(cluster)
    await cluster.create("ResourceSlice", "slice", **_slice())
    async with controllers(cluster, _NAME, gates=_GATES):
        await cluster.create("DeviceTaintRule", "rule", **_rule("None"))
        await cluster.until(lambda: _says(cluster, "False", "NoEffect"))
    rule = await cluster.client.get(DEVICE_TAINT_RULES, "rule")
    (condition,) = rule.status.conditions
    assert condition.message.startswith(
        "2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if"
    )
    assert not await _leaves(cluster)
