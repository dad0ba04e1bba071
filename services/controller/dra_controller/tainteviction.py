"""Deletes pods from nodes with NoExecute taints that they do not tolerate, or not for long enough.

Mirrors pkg/controller/tainteviction/taint_eviction.go.
"""

from datetime import datetime, timedelta

from dra_shared.api.node import Node, Taint
from dra_shared.api.pod import Pod
from dra_shared.api.resources import NODES, PODS
from dra_shared.client.errors import NotFound
from dra_shared.client.events import reference
from dra_shared.clock import parse_rfc3339, rfc3339
from dra_shared.log import logger
from dra_shared.taints import NO_EXECUTE, tolerates
from prometheus_client import Counter, Histogram

from dra_controller.framework import Context, QueueController

_BY_NODE = "node"
_REASON = "TaintManagerEviction"

_log = logger(__name__)


class TaintEvictionController(QueueController):
    """The taint-eviction-controller of kube-controller-manager. Its keys are pods."""

    name = "taint-eviction-controller"
    queue_name = "noexec_taint_pod"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        pods = self.watch(PODS)
        nodes = self.watch(NODES)
        self._pods, self._nodes = pods.store, nodes.store
        self._recorder = context.recorder(self.name)
        self._since: dict[str, datetime] = {}
        self._pods.add_index(_BY_NODE, lambda pod: [pod.spec.node_name] if pod.spec.node_name else [])
        pods.add_handler(self._pod_added, self._pod_updated, self._pod_deleted)
        nodes.add_handler(self._node_changed, self._node_updated)
        self._deletions = Counter(
            "taint_eviction_controller_pod_deletions_total",
            "Pods deleted because of node taints since the controller started",
            registry=context.registry,
        )
        self._delay = Histogram(
            "taint_eviction_controller_pod_deletion_duration_seconds",
            "Seconds from the moment when a pod had to go to its deletion",
            buckets=(0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240),
            registry=context.registry,
        )

    def _pod_added(self, pod: Pod) -> None:
        if self._taints(pod):
            self.queue.add(pod.key)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if old.spec.node_name != new.spec.node_name or old.spec.tolerations != new.spec.tolerations:
            self._pod_added(new)

    def _pod_deleted(self, pod: Pod) -> None:
        self._since.pop(pod.metadata.uid, None)

    def _node_changed(self, node: Node) -> None:
        for pod in self._pods.by_index(_BY_NODE, node.metadata.name):
            self.queue.add(pod.key)

    def _node_updated(self, old: Node, new: Node) -> None:
        if _evicting_taints(old) != _evicting_taints(new):
            self._node_changed(new)

    def _taints(self, pod: Pod) -> list[Taint]:
        node = self._nodes.get(pod.spec.node_name) if pod.spec.node_name else None
        return _evicting_taints(node) if node is not None else []

    async def reconcile(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return
        uid = pod.metadata.uid
        taints = self._taints(pod)
        now = self._clock.now()
        left = toleration_seconds(pod, taints)
        if left is None:
            if self._since.pop(uid, None) is not None:
                self._report(pod, f"Cancelling deletion of Pod {key}")
            return
        due = now
        if left > 0:
            since = self._since.get(uid)
            if since is None:
                times = [parse_rfc3339(taint.time_added) for taint in taints if taint.time_added]
                # The toleration time starts when the taint was added, so that a restart of the controller does
                # not extend it.
                since = self._since[uid] = min(times) if times else now
            due = since + timedelta(seconds=left)
            left = (due - now).total_seconds()
        if left > 0:
            self.queue.add_after(key, left)
            return
        self._report(pod, f"Marking for deletion Pod {key}")
        await self._evict(pod)
        self._since.pop(uid, None)
        self._deletions.inc()
        self._delay.observe((self._clock.now() - due).total_seconds())
        _log.info("evicted pod", pod=key, node=pod.spec.node_name)

    async def _evict(self, pod: Pod) -> None:
        meta = pod.metadata
        entry = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        try:
            await self._client.patch_status(PODS, pod, {"conditions": [entry]})
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)
        except NotFound:
            return

    def _report(self, pod: Pod, message: str) -> None:
        self._recorder.event(reference(PODS, pod), "Normal", _REASON, message)


def _evicting_taints(node: Node) -> list[Taint]:
    return [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE]


def toleration_seconds(pod: Pod, taints: list[Taint]) -> float | None:
    """Return for how many seconds the pod tolerates all taints; None without limit."""
    shortest: float | None = None
    for taint in taints:
        # As upstream, only the first toleration that covers the taint counts.
        covering = next((entry for entry in pod.spec.tolerations if tolerates(entry, taint)), None)
        if covering is None:
            return 0.0
        if covering.toleration_seconds is not None:
            seconds = max(0.0, float(covering.toleration_seconds))
            shortest = seconds if shortest is None else min(shortest, seconds)
    return shortest
