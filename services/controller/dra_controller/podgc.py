"""Deletes pods that no other controller deletes: finished, orphaned and unscheduled ones.

Mirrors pkg/controller/podgc/gc_controller.go.
"""

import asyncio
from collections.abc import Iterable

import httpx
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resources import NODES, PODS
from dra_shared.client.errors import ApiError, Conflict, NotFound
from dra_shared.clock import rfc3339
from dra_shared.log import logger
from prometheus_client import Counter

from dra_controller.framework import Context, Controller
from dra_controller.pods import condition, is_terminal

_PERIOD_SECONDS = 20.0
_QUARANTINE_SECONDS = 40.0
_TERMINATED_THRESHOLD = 12500
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"

_log = logger(__name__)


class PodGarbageCollector(Controller):
    """The pod-garbage-collector-controller of kube-controller-manager."""

    name = "pod-garbage-collector-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = context.informers.informer(PODS)
        self._nodes = context.informers.informer(NODES)
        self._missing_since: dict[str, float] = {}
        labels = ["namespace", "reason"]
        self._deleted = Counter(
            "pod_gc_collector_force_delete_pods_total",
            "Pods that were deleted by force",
            labels,
            registry=context.registry,
        )
        self._failed = Counter(
            "pod_gc_collector_force_delete_pod_errors_total",
            "Failures to delete a pod by force",
            labels,
            registry=context.registry,
        )

    async def run(self) -> None:
        await self._pods.wait_for_sync()
        await self._nodes.wait_for_sync()
        while True:
            await self.collect()
            await self._clock.sleep(_PERIOD_SECONDS)

    async def collect(self) -> None:
        """Delete the pods that have to be collected now."""
        pods = self._pods.store.list()
        nodes = {node.metadata.name: node for node in self._nodes.store.list()}
        for reason, found in (
            ("terminated", self._surplus(pods)),
            ("out-of-service", _out_of_service(pods, nodes)),
            ("orphaned", await self._find_orphaned(pods, nodes)),
            ("unscheduled", _find_unscheduled(pods)),
        ):
            await asyncio.gather(*(self._delete(pod, reason) for pod in found))

    def _surplus(self, pods: Iterable[Pod]) -> list[Pod]:
        ended = [pod for pod in pods if is_terminal(pod)]
        if len(ended) <= _TERMINATED_THRESHOLD:
            return []
        evicted_first = sorted(
            ended,
            key=lambda pod: (pod.status.reason != "Evicted", pod.metadata.creation_timestamp or "", pod.key),
        )
        return evicted_first[: len(ended) - _TERMINATED_THRESHOLD]

    async def _find_orphaned(self, pods: Iterable[Pod], nodes: dict[str, Node]) -> list[Pod]:
        """Return the pods on nodes that have been missing for a while and that the API server does not have either."""
        now = self._clock.monotonic()
        used = {pod.spec.node_name for pod in pods if pod.spec.node_name}
        self._missing_since = {name: self._missing_since.get(name, now) for name in used - nodes.keys()}
        lost = set()
        for name, since in self._missing_since.items():
            if now - since < _QUARANTINE_SECONDS:
                continue
            try:
                await self._client.get(NODES, name)
            except NotFound:
                lost.add(name)
            except (ApiError, httpx.HTTPError, OSError, TimeoutError):
                continue
        return [pod for pod in pods if pod.spec.node_name in lost]

    async def _delete(self, pod: Pod, reason: str) -> None:
        meta = pod.metadata
        try:
            if not is_terminal(pod):
                await self._fail(pod, reason)
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_period=0)
        except (NotFound, Conflict):
            return
        except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
            self._failed.labels(meta.namespace, reason).inc()
            _log.warning("pod not removed, trying again", pod=pod.key, reason=reason, error=str(error))
            return
        self._deleted.labels(meta.namespace, reason).inc()
        _log.info("removed pod", pod=pod.key, reason=reason)

    async def _fail(self, pod: Pod, reason: str) -> None:
        """Set the phase, so that the controller that counts the pod observes its end."""
        status: dict[str, object] = {"phase": "Failed"}
        if reason == "orphaned" and condition(pod, "DisruptionTarget") is None:
            status["conditions"] = [
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists",
                    "lastTransitionTime": rfc3339(self._clock.now()),
                }
            ]
        await self._client.patch_status(PODS, pod, status)


def _find_unscheduled(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.metadata.deletion_timestamp is not None and not pod.spec.node_name]


def _out_of_service(pods: Iterable[Pod], nodes: dict[str, Node]) -> list[Pod]:
    """Return deleted pods on nodes that an administrator declared dead."""

    def is_dead(name: str) -> bool:
        node = nodes.get(name)
        if node is None or not any(taint.key == _OUT_OF_SERVICE for taint in node.spec.taints):
            return False
        return not any(entry.type == "Ready" and entry.status == "True" for entry in node.status.conditions)

    return [
        pod for pod in pods if pod.metadata.deletion_timestamp is not None and is_dead(pod.spec.node_name)
    ]
