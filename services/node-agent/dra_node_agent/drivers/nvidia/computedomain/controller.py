"""Creates the objects of a domain, maintains its status, and deletes everything with the domain.

Follows cmd/compute-domain-controller: a finalizer keeps the domain until its DaemonSet, its templates and
the labels on its nodes are gone.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, TypeVar

from dra_shared.api.meta import Object
from dra_shared.api.resources import DAEMON_SETS, NODES, PODS, RESOURCE_CLAIM_TEMPLATES, Resource
from dra_shared.client.errors import AlreadyExists, NotFound
from dra_shared.client.informer import Informer
from dra_shared.client.rest import Client
from dra_shared.client.workqueue import WorkQueue, run_workers
from dra_shared.clock import Clock
from dra_shared.log import logger
from msgspec.structs import replace

from dra_node_agent.drivers.nvidia.computedomain import api, objects, status
from dra_node_agent.drivers.nvidia.computedomain.api import CLIQUES, COMPUTE_DOMAINS, ComputeDomain
from dra_node_agent.drivers.nvidia.gates import NvidiaGates

T = TypeVar("T", bound=Object)

_WORKERS = 5

_log = logger(__name__)


class ComputeDomainController:
    """The ComputeDomain controller. Only the holder of the Lease is active.

    Args:
        namespace: where DaemonSets and cliques are.
        gates: the driver's feature gates, for its daemons.
        host_managed: machines run their IMEX daemons themselves: a domain gets its workload's template, and is ready.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        namespace: str,
        gates: NvidiaGates,
        *,
        host_managed: bool = False,
    ) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._gates = gates
        self._host_managed = host_managed
        self._queue: WorkQueue[str] = WorkQueue(clock)
        self._domains = Informer(client, COMPUTE_DOMAINS, clock=clock)
        self._domains.add_handler(self._domain_changed, lambda _, new: self._domain_changed(new))
        self._watched: list[Informer[Any]] = [self._domains]
        self._daemon_sets = self._watch(DAEMON_SETS, namespace)
        self._templates = self._watch(RESOURCE_CLAIM_TEMPLATES)
        self._cliques = self._watch(CLIQUES, namespace)
        self._pods = self._watch(PODS, namespace)
        self._nodes = self._watch(NODES)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._watched:
                tasks.create_task(informer.run())
            for informer in self._watched:
                await informer.wait_for_sync()
            await run_workers(self._queue, self.reconcile, workers=_WORKERS, name="compute-domain-controller")

    def _watch(self, resource: Resource[T], namespace: str | None = None) -> Informer[T]:
        """Return an informer of objects with a domain's label. Each change enqueues the domain."""
        informer = Informer(self._client, resource, namespace, label_selector=api.LABEL, clock=self._clock)
        informer.add_handler(self._part_changed, self._part_updated, self._part_changed)
        self._watched.append(informer)
        return informer

    def _domain_changed(self, domain: ComputeDomain) -> None:
        self._queue.add(domain.metadata.uid)

    def _part_changed(self, part: Object) -> None:
        self._queue.add(api.domain_uid_of(part.metadata))

    def _part_updated(self, old: Object, new: Object) -> None:
        for part in (old, new):
            self._part_changed(part)

    async def reconcile(self, uid: str) -> None:
        """Bring the objects of the domain with that UID to the desired state. Raises errors of the API server."""
        domain = _of(uid, self._domains.store.list())
        if domain is None and _of(uid, (await self._client.list(COMPUTE_DOMAINS)).items) is not None:
            # The informer does not have the domain yet but the API server has, so keep its objects. The
            # informer's event enqueues the domain again.
            return
        if domain is None or domain.metadata.deletion_timestamp is not None:
            gone = await self._tear_down(uid)
            if gone and domain is not None and api.FINALIZER in domain.metadata.finalizers:
                await self._let_go(domain)
            return
        if api.FINALIZER not in domain.metadata.finalizers:
            finalizers = (*domain.metadata.finalizers, api.FINALIZER)
            await self._client.update(COMPUTE_DOMAINS, _with_finalizers(domain, finalizers))
            # The event of the update enqueues the domain again.
            return
        await self._set_up(domain)
        await self._report(domain)

    async def _set_up(self, domain: ComputeDomain) -> None:
        uid = domain.metadata.uid
        targets = {
            template.metadata.labels.get(api.TARGET_LABEL) for template in self._own(self._templates, uid)
        }
        if not self._host_managed and not self._own(self._daemon_sets, uid):
            if api.DAEMON_TARGET not in targets:
                template = objects.daemon_template(domain, self._namespace)
                await self._create(RESOURCE_CLAIM_TEMPLATES, template)
            await self._create(DAEMON_SETS, objects.daemon_set(domain, self._namespace, self._gates.text()))
        if api.WORKLOAD_TARGET not in targets:
            await self._create(
                RESOURCE_CLAIM_TEMPLATES, objects.workload_template(domain, host_managed=self._host_managed)
            )

    async def _create(self, resource: Resource[T], obj: T) -> None:
        """Create the object, unless it was created already and the informer lags behind.

        Raises:
            AlreadyExists: an object with that name belongs to something else.
        """
        metadata = obj.metadata
        try:
            await self._client.create(resource, obj)
        except AlreadyExists:
            found = await self._client.get(resource, metadata.name, metadata.namespace)
            if api.domain_uid_of(found.metadata) != api.domain_uid_of(metadata):
                raise

    async def _report(self, domain: ComputeDomain) -> None:
        uid = domain.metadata.uid
        pods = self._own(self._pods, uid)
        nodes = {pod.spec.node_name for pod in pods}
        cliques = []
        for clique in self._own(self._cliques, uid):
            left = status.without_stale(clique, nodes)
            if left != clique.daemons:
                clique = await self._client.update(CLIQUES, replace(clique, daemons=left))
            cliques.append(clique)
        found = status.status_of(domain, sorted(cliques, key=lambda clique: clique.key), pods)
        if self._host_managed:
            found = replace(domain.status, status=api.READY)
        if found != domain.status:
            await self._client.update(COMPUTE_DOMAINS, replace(domain, status=found), subresource="status")

    async def _tear_down(self, uid: str) -> bool:
        """Delete everything that belongs to the domain. Return True once all of it is gone."""
        owned: list[tuple[Resource[Any], Any]] = [
            *((RESOURCE_CLAIM_TEMPLATES, template) for template in self._own(self._templates, uid)),
            *((DAEMON_SETS, daemon_set) for daemon_set in self._own(self._daemon_sets, uid)),
        ]
        for resource, part in owned:
            if part.metadata.deletion_timestamp is None:
                await self._client.delete(resource, part.metadata.name, part.metadata.namespace)
        for node in self._own(self._nodes, uid):
            # Send the resource version. If the label was replaced by that of another domain, the request fails.
            metadata = {"labels": {api.LABEL: None}, "resourceVersion": node.metadata.resource_version}
            await self._client.patch(NODES, node.metadata.name, {"metadata": metadata})
        for resource, part in owned:
            if part.metadata.deletion_timestamp is not None and api.FINALIZER in part.metadata.finalizers:
                await self._release(resource, part)
        return not owned

    async def _let_go(self, domain: ComputeDomain) -> None:
        """Remove the domain's finalizer, unless the API server still has objects that the informers lack."""
        selector = f"{api.LABEL}={domain.metadata.uid}"
        parts: list[tuple[Resource[Any], str | None]] = [
            (RESOURCE_CLAIM_TEMPLATES, None),
            (DAEMON_SETS, self._namespace),
        ]
        for resource, namespace in parts:
            if (await self._client.list(resource, namespace, label_selector=selector)).items:
                # The informers' events about these objects enqueue the domain again.
                return
        await self._release(COMPUTE_DOMAINS, domain)
        _log.info("compute domain removed", domain=domain.key)

    async def _release(self, resource: Resource[T], obj: T) -> None:
        """Remove the finalizer from the object."""
        metadata = obj.metadata
        body = {
            "metadata": {
                "finalizers": [name for name in metadata.finalizers if name != api.FINALIZER] or None,
                "resourceVersion": metadata.resource_version,
            }
        }
        try:
            await self._client.patch(resource, metadata.name, body, metadata.namespace)
        except NotFound:
            return

    def _own(self, informer: Informer[T], uid: str) -> list[T]:
        return [part for part in informer.store.list() if api.domain_uid_of(part.metadata) == uid]


def _of(uid: str, domains: Iterable[ComputeDomain]) -> ComputeDomain | None:
    return next((domain for domain in domains if domain.metadata.uid == uid), None)


def _with_finalizers(domain: ComputeDomain, finalizers: tuple[str, ...]) -> ComputeDomain:
    return replace(domain, metadata=replace(domain.metadata, finalizers=finalizers))
