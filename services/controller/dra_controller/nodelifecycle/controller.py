"""The node life cycle controller.

Mirrors pkg/controller/nodelifecycle/node_lifecycle_controller.go.
"""

import asyncio

import httpx
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resources import LEASES, NODES, PODS
from dra_shared.client.errors import ApiError, Conflict, NotFound
from dra_shared.client.events import reference
from dra_shared.client.rest import PatchType
from dra_shared.client.workqueue import WorkQueue, run_workers
from dra_shared.clock import rfc3339
from dra_shared.log import logger
from msgspec.structs import replace

from dra_controller.framework import Context, Controller
from dra_controller.nodelifecycle import health
from dra_controller.nodelifecycle.health import Probe
from dra_controller.pods import condition as pod_condition
from dra_controller.pods import is_terminal
from dra_controller.queuemetrics import measure_queue

# The values of kube-controller-manager's --node-monitor-period and --node-startup-grace-period.
_PERIOD_SECONDS = 5.0
_STARTUP_SECONDS = 60.0
_LEASE_NAMESPACE = "kube-node-lease"
_BY_NODE = "node"

_log = logger(__name__)


class NodeLifecycleController(Controller):
    """The node-lifecycle-controller of kube-controller-manager: health, conditions and taints of nodes.

    The taint-eviction-controller evicts pods from tainted nodes.
    """

    name = "node-lifecycle-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._nodes = context.informers.informer(NODES)
        self._pods = context.informers.informer(PODS)
        self._leases = context.informers.informer(LEASES)
        self._recorder = context.recorder("node-controller")
        self._queue: WorkQueue[str] = WorkQueue(context.clock)
        measure_queue(context.registry, "node_lifecycle_controller", self._queue)
        self._probes: dict[str, Probe] = {}
        self._pods.store.add_index(_BY_NODE, lambda pod: [pod.spec.node_name] if pod.spec.node_name else [])
        self._nodes.add_handler(self._enqueue, lambda _, new: self._enqueue(new), self._handle_deletion)

    def _enqueue(self, node: Node) -> None:
        self._queue.add(node.metadata.name)

    def _handle_deletion(self, node: Node) -> None:
        self._probes.pop(node.metadata.name, None)
        message = f"Node {node.metadata.name} event: Removing Node {node.metadata.name} from Controller"
        self._recorder.event(reference(NODES, node), "Normal", "RemovingNode", message)

    async def run(self) -> None:
        for informer in (self._nodes, self._pods, self._leases):
            await informer.wait_for_sync()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(run_workers(self._queue, self._mark, workers=4, name=self.name))
            while True:
                await self.check()
                await self._clock.sleep(_PERIOD_SECONDS)

    async def check(self) -> None:
        """Look for nodes that have not reported for too long."""
        now = self._clock.monotonic()
        for node in self._nodes.store.list():
            name = node.metadata.name
            lease = self._leases.store.get(f"{_LEASE_NAMESPACE}/{name}")
            if name not in self._probes:
                message = f"Node {name} event: Registered Node {name} in Controller"
                seen_as = replace(reference(NODES, node), resource_version="")
                self._recorder.event(seen_as, "Normal", "RegisteredNode", message)
            seen = self._probes[name] = health.observe(node, lease, self._probes.get(name), now)
            reported = health.condition(node, "Ready") is not None
            grace = self._context.node_monitor_grace_seconds if reported else _STARTUP_SECONDS
            if now - seen.seen <= grace:
                continue
            conditions = health.lost_conditions(node, rfc3339(self._clock.now()))
            if conditions == node.status.conditions:
                continue
            changed = [entry for entry in conditions if entry not in node.status.conditions]
            body = {
                "metadata": {"resourceVersion": node.metadata.resource_version},
                "status": {"conditions": changed},
            }
            try:
                await self._client.patch(
                    NODES, name, body, patch_type=PatchType.STRATEGIC, subresource="status"
                )
            except (NotFound, Conflict):
                continue
            except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
                _log.warning("node's loss not recorded, trying again", node=name, error=str(error))
                continue
            _log.warning("node stopped reporting", node=name, seconds=round(now - seen.seen))
            message = f"Node {name} status is now: NodeNotReady"
            self._recorder.event(reference(NODES, node), "Normal", "NodeNotReady", message)

    async def _mark(self, name: str) -> None:
        """Update the taints of the node from its conditions, and mark its pods as not ready if it does not report."""
        node = self._nodes.store.get(name)
        if node is None or node.metadata.deletion_timestamp is not None:
            return
        taints = health.taints(node, rfc3339(self._clock.now()))
        if set(taints) != set(node.spec.taints):
            body = {
                "metadata": {"resourceVersion": node.metadata.resource_version},
                "spec": {"taints": list(taints)},
            }
            await self._client.patch(NODES, name, body)
            _log.info("marked node", node=name, taints=[f"{taint.key}:{taint.effect}" for taint in taints])
        labels = health.missing_labels(node)
        if labels:
            await self._client.patch(NODES, name, {"metadata": {"labels": labels}})
        ready = health.condition(node, "Ready")
        if ready is not None and ready.status == "Unknown":
            # If the kubelet itself reports that the node is not ready, it still manages its pods.
            for pod in self._pods.store.by_index(_BY_NODE, name):
                await self._mark_unready(pod)

    async def _mark_unready(self, pod: Pod) -> None:
        """Mark the pod as not ready: its node does not report, so it must get no traffic and count as unavailable."""
        ready = pod_condition(pod, "Ready")
        if ready is None or ready.status != "True" or is_terminal(pod):
            return
        entry = {
            "type": "Ready",
            "status": "False",
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        try:
            await self._client.patch_status(PODS, pod, {"conditions": [entry]})
        except (NotFound, Conflict):
            return
        self._recorder.event(reference(PODS, pod), "Warning", "NodeNotReady", "Node is not ready")
