"""The daemon of a domain on a node, with a simulated IMEX daemon (cmd/compute-domain-daemon).

It adds itself to the clique of its node at the lowest free index, reports there whether its pod is ready,
and removes itself when it ends.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from dra_driverkit.errors import DriverConfigError
from dra_shared.api.meta import ObjectMeta, OwnerReference
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS
from dra_shared.client.errors import ApiError, Conflict, NotFound
from dra_shared.client.informer import Informer
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.log import logger
from msgspec.structs import replace

from dra_node_agent.drivers.nvidia.computedomain import api, objects
from dra_node_agent.drivers.nvidia.computedomain.api import CLIQUES, ComputeDomainClique, DaemonInfo
from dra_node_agent.drivers.nvidia.computedomain.status import is_ready

_RETRY_SECONDS = 0.2
_LEAVE_ATTEMPTS = 5

_log = logger(__name__)


class ComputeDomainDaemon:
    """The daemon of one container.

    Args:
        environment: of its container: the pod's fields, and what the driver injects.

    Raises:
        DriverConfigError: the driver's CDI edits are missing.
    """

    def __init__(self, client: Client, clock: Clock, environment: Mapping[str, str]) -> None:
        self._client = client
        self._clock = clock
        self._domain = environment.get("COMPUTE_DOMAIN_UUID", "")
        if not self._domain:
            raise DriverConfigError(
                "CDI container edits did not apply -- is CDI enabled in your container runtime?"
            )
        self._clique_id = environment.get("CLIQUE_ID", "")
        self._node = environment.get("NODE_NAME", "")
        self._address = environment.get("POD_IP", "")
        self._namespace = environment.get("POD_NAMESPACE", "")
        self._pod_name = environment.get("POD_NAME", "")
        self._pod_uid = environment.get("POD_UID", "")
        self._most = int(environment.get("MAX_NODES_PER_IMEX_DOMAIN") or objects.MOST_NODES)
        # True if the IMEX daemon serves, or if none is needed.
        self.serving = not self._clique_id
        self._changed = asyncio.Event()
        name = api.clique_name(self._domain, self._clique_id)
        self._cliques = self._informer(CLIQUES, name)
        self._pods: Informer[Pod] = self._informer(PODS, self._pod_name)

    async def run(self, ended: asyncio.Event) -> None:
        """Serve until the event is set.

        Raises:
            ApiError: the pod cannot be labelled.
        """
        labels = {api.CLIQUE_LABEL: self._clique_id}
        await self._client.patch(PODS, self._pod_name, {"metadata": {"labels": labels}}, self._namespace)
        if not self._clique_id:
            await ended.wait()
            return
        tasks = [
            asyncio.create_task(work, name=f"daemon on {self._node}")
            for work in (self._cliques.run(), self._pods.run(), self._work())
        ]
        try:
            await ended.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self.serving = False
        await self._leave()

    def _informer(self, resource: Any, name: str) -> Informer[Any]:
        informer: Informer[Any] = Informer(
            self._client,
            resource,
            self._namespace,
            field_selector=f"metadata.name={name}",
            clock=self._clock,
        )
        informer.add_handler(self._wake, lambda _, new: self._wake(new), self._wake)
        return informer

    def _wake(self, _: object) -> None:
        self._changed.set()

    async def _work(self) -> None:
        await self._cliques.wait_for_sync()
        self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._reconcile()
            except (ApiError, httpx.HTTPError, OSError, TimeoutError, CliqueFull) as error:
                if not isinstance(error, Conflict):
                    _log.warning("daemon cannot update its clique", node=self._node, error=str(error))
                await self._clock.sleep(_RETRY_SECONDS)
                self._changed.set()

    async def _reconcile(self) -> None:
        clique = self._clique()
        if clique is None:
            await self._client.create(CLIQUES, self._new_clique())
            return
        own = next((daemon for daemon in clique.daemons if daemon.node_name == self._node), None)
        if own is None:
            own = DaemonInfo(
                node_name=self._node, clique_id=self._clique_id, index=free_index(clique.daemons, self._most)
            )
        wanted = replace(own, ip_address=self._address)
        if self.serving:
            wanted = replace(wanted, status=self._pod_status())
        if wanted not in clique.daemons:
            others = (daemon for daemon in clique.daemons if daemon.node_name != self._node)
            daemons = (*others, wanted)
            await self._client.update(CLIQUES, self._add_owner(replace(clique, daemons=daemons)))
        if not self.serving:
            # The IMEX daemon starts once its peers are known.
            self.serving = True
            self._changed.set()

    async def _leave(self) -> None:
        name = api.clique_name(self._domain, self._clique_id)
        for _ in range(_LEAVE_ATTEMPTS):
            try:
                clique = await self._client.get(CLIQUES, name, self._namespace)
                left = tuple(daemon for daemon in clique.daemons if daemon.ip_address != self._address)
                await self._client.update(CLIQUES, replace(clique, daemons=left))
                return
            except Conflict:
                continue
            except NotFound:
                return
            except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
                _log.warning("daemon cannot leave its clique", node=self._node, error=str(error))
                return

    def _clique(self) -> ComputeDomainClique | None:
        found: Sequence[ComputeDomainClique] = self._cliques.store.list()
        return found[0] if found else None

    def _pod_status(self) -> str:
        return api.READY if any(map(is_ready, self._pods.store.list())) else api.NOT_READY

    def _new_clique(self) -> ComputeDomainClique:
        metadata = ObjectMeta(
            name=api.clique_name(self._domain, self._clique_id),
            namespace=self._namespace,
            labels={api.LABEL: self._domain, api.CLIQUE_LABEL: self._clique_id},
        )
        return self._add_owner(ComputeDomainClique(metadata=metadata))

    def _add_owner(self, clique: ComputeDomainClique) -> ComputeDomainClique:
        """Return the clique with this pod among its owners. It is deleted with the last of them."""
        owners = clique.metadata.owner_references
        if any(owner.uid == self._pod_uid for owner in owners):
            return clique
        own = OwnerReference(api_version="v1", kind="Pod", name=self._pod_name, uid=self._pod_uid)
        return replace(clique, metadata=replace(clique.metadata, owner_references=(*owners, own)))


class CliqueFull(Exception):
    """A clique has the maximum number of daemons."""


def free_index(daemons: tuple[DaemonInfo, ...], most: int) -> int:
    """Return the lowest free index. The indexes of other daemons do not change, because DNS names depend on them.

    Raises:
        CliqueFull: there are ``most`` daemons.
    """
    taken = {daemon.index for daemon in daemons}
    index = next(index for index in range(len(taken) + 1) if index not in taken)
    if index >= most:
        raise CliqueFull(f"no available indices within maxNodesPerIMEXDomain ({most})")
    return index
