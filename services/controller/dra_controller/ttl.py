"""Annotates nodes with the time for which kubelets may cache config maps and secrets: more nodes, longer time.

Mirrors pkg/controller/ttl/ttl_controller.go.
"""

from dra_shared.api.node import Node
from dra_shared.api.resources import NODES
from dra_shared.client.errors import NotFound

from dra_controller.framework import Context, QueueController

ANNOTATION = "node.alpha.kubernetes.io/ttl"
# TTLs in seconds, each with the minimum and maximum number of nodes. The ranges overlap, so that the value does
# not alternate.
_STEPS = ((0, 0, 100), (15, 90, 500), (30, 450, 1000), (60, 900, 2000), (300, 1800, 1 << 31))


class TTLController(QueueController):
    """The ttl-controller of kube-controller-manager."""

    name = "ttl-controller"
    queue_name = "ttlcontroller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        nodes = self.watch(NODES)
        self._nodes = nodes.store
        self._step = 0
        nodes.add_handler(
            self._handle_change, lambda _, new: self._handle_change(new), lambda _: self._count()
        )

    def _handle_change(self, node: Node) -> None:
        self._count()
        self.queue.add(node.metadata.name)

    def _count(self) -> None:
        """Update the TTL from the number of nodes. Each node gets the value at its kubelet's next report."""
        number = len(self._nodes)
        while number > _STEPS[self._step][2]:
            self._step += 1
        while number < _STEPS[self._step][1]:
            self._step -= 1

    async def reconcile(self, key: str) -> None:
        node = self._nodes.get(key)
        seconds = str(_STEPS[self._step][0])
        if node is None or node.metadata.annotations.get(ANNOTATION) == seconds:
            return
        try:
            await self._client.patch(NODES, key, {"metadata": {"annotations": {ANNOTATION: seconds}}})
        except NotFound:
            return
