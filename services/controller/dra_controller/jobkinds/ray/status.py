"""The status of a RayCluster.

Mirrors calculateStatus in ray-operator/controllers/ray/raycluster_controller.go.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from dra_shared.api.core import Service
from dra_shared.api.pod import Pod
from dra_shared.jobkinds.podsets import integer
from dra_shared.jobkinds.ray import desired_replicas
from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity

from dra_controller.jobkinds.controller import Draft
from dra_controller.jobkinds.ray.names import NODE_TYPE
from dra_controller.pods import condition

_MOST = 2**31 - 1
_SUSPENDED, _SUSPENDING = "RayClusterSuspended", "RayClusterSuspending"


def suspend_state(draft: Draft) -> str:
    """Return the condition of suspension that is True; empty if none is."""
    return next((name for name in (_SUSPENDING, _SUSPENDED) if draft.has(name)), "")


def write_status(draft: Draft, pods: Sequence[Pod], service: Service | None, *, failed: bool) -> None:
    """Write the status of the cluster with these pods. ``failed`` if not all of them could be created or deleted."""
    spec, status = draft.obj.spec, draft.status
    groups = spec.get("workerGroupSpecs") or []
    before = status.get("state")
    workers = [pod for pod in pods if pod.metadata.labels.get(NODE_TYPE) == "worker"]
    head = next((pod for pod in pods if pod.metadata.labels.get(NODE_TYPE) == "head"), None)
    live = [group for group in groups if not group.get("suspend")]
    hosts = {id(group): integer(group, "numOfHosts", 1) for group in groups}
    numbers = {
        "readyWorkerReplicas": sum(_is_ready(pod) for pod in workers),
        "availableWorkerReplicas": sum(pod.status.phase == "Running" for pod in workers),
        "desiredWorkerReplicas": sum(desired_replicas(group) * hosts[id(group)] for group in groups),
        "minWorkerReplicas": sum(integer(group, "minReplicas", 0) * hosts[id(group)] for group in live),
        "maxWorkerReplicas": min(
            _MOST, sum(integer(group, "maxReplicas", _MOST) * hosts[id(group)] for group in live)
        ),
    }
    status |= {"observedGeneration": draft.obj.metadata.generation, **numbers, **_resources(spec)}
    for name in [name for name, number in numbers.items() if number == 0]:
        del status[name]
    running = _are_running(pods)
    if not failed and len(pods) == numbers["desiredWorkerReplicas"] + 1 and running:
        status["state"] = "ready"
    _write_head(draft, head)
    _write_provisioned(draft, running=running)
    _write_suspension(draft, empty=not pods)
    if spec.get("suspend") and not pods:
        status["state"] = "suspended"
    _write_addresses(status, head, service)
    if status.get("state") != before:
        status.setdefault("stateTransitionTimes", {})[status["state"]] = draft.now


def _is_ready(pod: Pod) -> bool:
    found = condition(pod, "Ready")
    return pod.status.phase == "Running" and found is not None and found.status == "True"


def _are_running(pods: Sequence[Pod]) -> bool:
    return bool(pods) and all(map(_is_ready, pods))


def _resources(spec: JsonObject) -> dict[str, str]:
    """Return the sum of the resources that all pods request."""
    groups = [(spec["headGroupSpec"], 1)]
    groups += [
        (group, integer(group, "replicas", 0) * integer(group, "numOfHosts", 1))
        for group in spec.get("workerGroupSpecs") or ()
        if not group.get("suspend")
    ]
    totals: dict[str, Quantity] = {}
    for group, number in groups:
        for name, quantity in _requests(group["template"]["spec"]["containers"]):
            if number:
                share = quantity.mul(number)
                totals[name] = totals[name].add(share) if name in totals else share
    zero = Quantity.parse("0")
    gpus = zero
    for name, quantity in totals.items():
        if name.endswith("gpu"):
            gpus = gpus.add(quantity)
    return {
        "desiredCPU": str(totals.get("cpu", zero)),
        "desiredMemory": str(totals.get("memory", zero)),
        "desiredGPU": str(gpus),
        "desiredTPU": str(totals.get("google.com/tpu", zero)),
    }


def _requests(containers: Iterable[JsonObject]) -> Iterable[tuple[str, Quantity]]:
    for container in containers:
        resources = container.get("resources") or {}
        wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, quantity in wanted.items():
            yield name, Quantity.parse(str(quantity))


def _write_head(draft: Draft, head: Pod | None) -> None:
    if head is None:
        draft.set_condition("HeadPodReady", "False", "HeadPodNotFound", "Head Pod not found")
        return
    found = condition(head, "Ready")
    if found is None:
        draft.set_condition("HeadPodReady", "False", "Unknown", "")
        return
    reason = found.reason or ("HeadPodRunningAndReady" if found.status == "True" else "Unknown")
    message = found.message
    if reason == "ContainersNotReady":
        for one in head.status.container_statuses:
            state = one.state.waiting or one.state.terminated if one.state is not None else None
            if state is not None:
                reason, message = state.reason or reason, f"{one.name}: {state.message}"
                break
    draft.set_condition("HeadPodReady", found.status, reason, message)


def _write_provisioned(draft: Draft, *, running: bool) -> None:
    name = "RayClusterProvisioned"
    if draft.has(name) or suspend_state(draft) == _SUSPENDED:
        return
    if running:
        text = "All Ray Pods are ready for the first time"
        draft.set_condition(name, "True", "AllPodRunningAndReadyFirstTime", text)
    else:
        text = "RayCluster Pods are being provisioned for first time"
        draft.set_condition(name, "False", "RayClusterPodsProvisioning", text)


def _write_suspension(draft: Draft, *, empty: bool) -> None:
    state, wanted = suspend_state(draft), bool(draft.obj.spec.get("suspend"))

    def write(name: str, value: Any) -> None:
        draft.set_condition(name, str(bool(value)), name, "")

    if state == _SUSPENDING:
        if empty:
            text = "RayCluster has been suspended"
            draft.set_condition("RayClusterProvisioned", "False", "RayClusterPodsProvisioning", text)
            write(_SUSPENDING, False)
            write(_SUSPENDED, True)
    elif state == _SUSPENDED:
        if not wanted:
            write(_SUSPENDED, False)
    else:
        write(_SUSPENDED, False)
        write(_SUSPENDING, wanted)


def _write_addresses(status: JsonObject, head: Pod | None, service: Service | None) -> None:
    info = {"podIP": head.status.pod_ip, "podName": head.metadata.name} if head is not None else {}
    if service is not None:
        endpoints = status.setdefault("endpoints", {})
        for port in service.spec.ports:
            if port.name:
                endpoints[port.name] = str(port.node_port or port.target_port or port.port)
        headless = service.spec.cluster_ip == "None"
        info |= {
            "serviceIP": info.get("podIP", "") if headless else service.spec.cluster_ip,
            "serviceName": service.metadata.name,
        }
    status["head"] = {key: value for key, value in info.items() if value}
