"""The API requests of a node's driver for a domain (cmd/compute-domain-kubelet-plugin/computedomain.go)."""

from dra_driverkit.errors import PrepareError
from dra_shared.api.resources import NODES
from dra_shared.client.errors import NotFound
from dra_shared.client.informer import Informer
from dra_shared.client.rest import Client

from dra_node_agent.drivers.nvidia.computedomain import api
from dra_node_agent.drivers.nvidia.computedomain.api import CLIQUES, READY, ComputeDomain


class Domains:
    """The domains from the point of view of a node.

    Args:
        informer: of all domains.
        namespace: where their cliques are.
        clique: the NVLink domain of the node's GPUs; empty without one.
    """

    def __init__(
        self, client: Client, informer: Informer[ComputeDomain], namespace: str, node_name: str, clique: str
    ) -> None:
        self.clique = clique
        self._client = client
        self._informer = informer
        self._namespace = namespace
        self._node = node_name

    def find(self, uid: str) -> ComputeDomain | None:
        """Return the domain with that UID, or None."""
        return next((d for d in self._informer.store.list() if d.metadata.uid == uid), None)

    def check_namespace(self, uid: str, namespace: str) -> None:
        """Check that the domain exists in that namespace. Raises PrepareError."""
        if self._get(uid).metadata.namespace != namespace:
            raise PrepareError(
                "the ResourceClaim's namespace is different than the ComputeDomain's namespace"
            )

    async def join(self, uid: str) -> None:
        """Label the node, so that the domain's daemon is scheduled there.

        Raises:
            PrepareError: the node is in another domain.
            ApiError: the node cannot be changed.
        """
        node = await self._client.get(NODES, self._node)
        label = node.metadata.labels.get(api.LABEL)
        if label == uid:
            return
        if label is not None:
            raise PrepareError("label already exists for a different ComputeDomain")
        await self._label(uid, node.metadata.resource_version)

    async def leave(self, uid: str) -> None:
        """Remove the domain's label from the node if it has it. Raises ApiError."""
        try:
            node = await self._client.get(NODES, self._node)
        except NotFound:
            return
        if node.metadata.labels.get(api.LABEL) == uid:
            await self._label(None, node.metadata.resource_version)

    async def check_ready(self, uid: str) -> None:
        """Raise PrepareError until the domain's daemon on this node is ready. Raises ApiError."""
        domain = self._get(uid)
        if not (await self._ready_in_clique(uid) or self._ready_in_status(domain)):
            raise PrepareError("current node not ready in ComputeDomain")

    async def _ready_in_clique(self, uid: str) -> bool:
        if not self.clique:
            return False
        try:
            clique = await self._client.get(CLIQUES, api.clique_name(uid, self.clique), self._namespace)
        except NotFound:
            return False
        return any(d.node_name == self._node and d.status == READY for d in clique.daemons)

    def _ready_in_status(self, domain: ComputeDomain) -> bool:
        return any(node.name == self._node and node.status == READY for node in domain.status.nodes)

    def _get(self, uid: str) -> ComputeDomain:
        domain = self.find(uid)
        if domain is None:
            raise PrepareError(f"ComputeDomain not found: {uid}")
        return domain

    async def _label(self, value: str | None, version: str) -> None:
        metadata = {"labels": {api.LABEL: value}, "resourceVersion": version}
        await self._client.patch(NODES, self._node, {"metadata": metadata})
