"""Start the processes of a cluster in order, watch them, and stop them."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence

import httpx
from dra_kube.cluster import Cluster, Record, ServiceRecord
from dra_shared.api.node import Node
from dra_shared.api.resources import NODES, RESOURCE_SLICES
from dra_shared.client.errors import ApiError
from dra_shared.client.rest import Client
from dra_shared.errors import UserError
from dra_shared.plurals import count
from dra_worlds.fleet import Pools

from dra_lab import snapshots
from dra_lab.clusteroptions import ClusterOptions
from dra_lab.faults.listener import FaultListener
from dra_lab.forkserver import ForkServer
from dra_lab.ports import PortTaken
from dra_lab.protection import Protection
from dra_lab.restore.writer import Writer
from dra_lab.servicespecs import ServiceSpecs, agent_name
from dra_lab.supervisor import ServiceSpec, Supervisor

# Admission adds this taint to a new node. The node lifecycle controller removes it once the node is ready.
_NOT_READY = "node.kubernetes.io/not-ready"
_TIMEOUT = 10.0
_EVERY = 0.05
# Large fleets: nodes register in no fixed order, so a sample of this size is enough.
_SAMPLE = 500


async def wait_for_schedulable_nodes(client: Client) -> None:
    """Wait until no ready node has the not-ready taint, or until ten seconds have passed."""
    try:
        async with asyncio.timeout(_TIMEOUT):
            while True:
                nodes = (await client.list(NODES, limit=_SAMPLE)).items
                if not any(map(_is_ready_but_tainted, nodes)):
                    return
                await asyncio.sleep(_EVERY)
    except (ApiError, httpx.HTTPError, OSError, TimeoutError):
        return


def _is_ready_but_tainted(node: Node) -> bool:
    ready = any(one.type == "Ready" and one.status == "True" for one in node.status.conditions)
    return ready and any(taint.key == _NOT_READY for taint in node.spec.taints)


# The number of start attempts if another program takes a port that was chosen here.
_ATTEMPTS = 5
# The interval for reading the files of pools.
_POOLS_EVERY = 0.3


class ClusterServices:
    """The processes of one cluster: API server, scheduler, controller and node agent.

    Raises:
        UserError: the options leave out a required service, or name versions, gates or GPUs that do not exist.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ClusterOptions,
        report: Callable[[str], None],
        forks: Sequence[ForkServer] = (),
    ) -> None:
        self.cluster = cluster
        self._forks = forks
        self._options = options
        self._report = report
        self._ready = False
        self._faults: FaultListener
        nodes = [name for pool in options.pools for name in pool.nodes]
        self._protection = Protection(cluster.data / "auth", options.protection, nodes)
        self._specs = ServiceSpecs(cluster.data, options, self._protection)

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[str]:
        """Run the services for the block. Yield the API server's URL once all processes are ready.

        Raises:
            PortTaken: another program uses the port that the options name.
            UserError: a process is not ready in time, or exits repeatedly.
        """
        async with contextlib.AsyncExitStack() as stack:
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    server, processes = await self._start()
                except PortTaken:
                    # Another program listens on a port that was chosen here: start with other ports.
                    if self._options.port or attempt == _ATTEMPTS:
                        raise
                else:
                    await stack.enter_async_context(processes)
                    yield server
                    return

    async def _start(self) -> tuple[str, contextlib.AsyncExitStack]:
        Pools(self.cluster.data).start(self._options.pools)
        async with contextlib.AsyncExitStack() as stack:
            faults = self._faults = FaultListener(self.cluster, self._protection.supervising_token)
            stack.callback(faults.close)
            specs = self._specs.all(stack, faults.url)
            server = specs[0].port.url
            later = specs[1:] if self._options.restored or self._options.snapshot else []
            del specs[len(specs) - len(later) :]
            supervisor = Supervisor(
                specs,
                self.cluster.logs,
                report=self._report,
                changed=lambda: self._publish(specs, supervisor),
                forks=self._forks,
            )
            await stack.enter_async_context(supervisor)
            await stack.enter_async_context(faults.serve(supervisor, lambda: _scheduler_of(specs)))
            protection = self._protection
            self.cluster.write_kubeconfig(server, protection.administrator, protection.authority_pem)
            self._publish(specs, supervisor)
            if later:
                await supervisor.ready(only=("apiserver",))
                await self._restore()
            if self._options.has_roles:
                await supervisor.ready(only=("apiserver",))
                async with self.cluster.client("dralab") as client:
                    await protection.grant(client)
            for spec in later:
                await supervisor.add(spec)
                specs.append(spec)
            if later:
                self._publish(specs, supervisor)
            await supervisor.ready(progress=self._count_nodes_and_slices)
            if not {"controller", "node-agent"} & {*self._options.without}:
                async with self.cluster.client("dralab") as client:
                    await wait_for_schedulable_nodes(client)
            self._ready = True
            self._publish(specs, supervisor)
            if "node-agent" not in self._options.without:
                following = asyncio.create_task(self._follow_pools(specs, supervisor))
                stack.push_async_callback(_cancel, following)
            return server, stack.pop_all()
        raise AssertionError("the stack hides no error")

    async def _count_nodes_and_slices(self) -> list[int]:
        """Return the number of nodes and of published slices."""
        counted = []
        async with self.cluster.client("dralab") as client:
            for resource in (NODES, RESOURCE_SLICES):
                with contextlib.suppress(httpx.HTTPError, OSError, TimeoutError, ValueError, KeyError):
                    listed = (await client.raw("GET", resource.path(), params={"limit": "1"})).json()
                    more = listed["metadata"].get("remainingItemCount", 0)
                    counted.append(len(listed["items"]) + more)
        return counted

    async def _restore(self) -> None:
        """Create the objects that the cluster starts with, while only the API server runs."""
        if self._options.snapshot is not None:
            async with self.cluster.client("dralab") as client:
                done = await snapshots.put(client, snapshots.content(self._options.snapshot))
            self._report(f"snapshot restored: {done['added']} objects added, {done['changed']} changed")
            return
        problems: list[str] = []
        async with self.cluster.client("dralab") as client:
            writer = Writer(client, problems, self._specs.versions.cluster)
            written = await writer.write(self._options.restored)
        for problem in problems:
            self._report(f"not restored: {problem}")
        self._report(f"{count(written, 'object')} restored")

    async def _follow_pools(self, specs: list[ServiceSpec], supervisor: Supervisor) -> None:
        """Start and stop node agents when files of pools are added, changed or removed, for example by `dralab
        node add`.
        """
        known = {pool.name: pool for pool in self._options.pools}
        with contextlib.ExitStack() as ports:
            while True:
                await asyncio.sleep(_POOLS_EVERY)
                try:
                    wanted = {
                        name: pool for name, pool in Pools(self.cluster.data).read().items() if pool.nodes
                    }
                except UserError as error:
                    self._report(str(error))
                    continue
                for name in [name for name in known if wanted.get(name) != known[name]]:
                    del known[name]
                    await supervisor.remove(agent_name(name))
                    specs[:] = [spec for spec in specs if spec.name != agent_name(name)]
                    self._publish(specs, supervisor)
                for name in [name for name in wanted if name not in known]:
                    known[name] = wanted[name]
                    spec = self._specs.agent(wanted[name], ports)
                    await supervisor.add(spec)
                    specs.append(spec)
                    self._publish(specs, supervisor)

    def _publish(self, specs: Sequence[ServiceSpec], supervisor: Supervisor) -> None:
        """Write the cluster's record, with the addresses of all services."""
        pids, restarts, refusals = supervisor.pids(), supervisor.restarts(), supervisor.refusals()
        services = {
            spec.name: ServiceRecord(
                pid=pids[spec.name],
                url=spec.port.url,
                restarts=restarts[spec.name],
                refusal=refusals.get(spec.name, ""),
            )
            for spec in specs
        }
        server = specs[0].port.url
        self.cluster.write(
            Record(
                pid=os.getpid(),
                server=server,
                ready=self._ready,
                token=self._protection.serving_token,
                services=services,
                supervisor=self._faults.url,
                supervisor_token=self._protection.supervising_token,
            )
        )


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _scheduler_of(specs: Sequence[ServiceSpec]) -> ServiceSpec | None:
    return next((spec for spec in specs if spec.name == "scheduler"), None)


class Reporter:
    """Prints lines for the user. A full disk or a closed pipe is ignored, because the services must continue."""

    def __call__(self, line: str) -> None:
        with contextlib.suppress(OSError):
            print(line, flush=True)
