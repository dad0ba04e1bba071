"""The ComputeDomain controller and its daemons against a real API server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pytest
from dra_node_agent.drivers.nvidia.computedomain import api
from dra_node_agent.drivers.nvidia.computedomain.api import CLIQUES, COMPUTE_DOMAINS, ComputeDomain
from dra_node_agent.drivers.nvidia.computedomain.controller import ComputeDomainController
from dra_node_agent.drivers.nvidia.computedomain.controlplane import install
from dra_node_agent.drivers.nvidia.computedomain.daemon import ComputeDomainDaemon
from dra_node_agent.drivers.nvidia.gates import NvidiaGates
from dra_shared.api.codec import ObjectList, convert
from dra_shared.api.resources import DAEMON_SETS, NODES, PODS, RESOURCE_CLAIM_TEMPLATES, Resource
from dra_shared.client.errors import ApiError, Invalid, NotFound
from dra_shared.client.rest import Client, WatchEvent
from dra_shared.clock import SystemClock

from tests.controller.cluster import Cluster, api_server
from tests.support.waiting import until

pytestmark = pytest.mark.system

SPACE = api.NAMESPACE
CLIQUE = "0e9a8d24-0000-4000-8000-000000000001.32766"


class Lab(Cluster):
    async def domain(self, name: str = "d", template: str = "channel", **spec: Any) -> ComputeDomain:
        body = {"channel": {"resourceClaimTemplate": {"name": template}}, **spec}
        obj = convert(COMPUTE_DOMAINS, {"metadata": {"name": name, "namespace": "default"}, "spec": body})
        made = await self.client.create(COMPUTE_DOMAINS, obj)

        async def get_with_status() -> ComputeDomain | None:
            domain = await self.now(made)
            return domain if domain is not None and domain.status.status else None

        return await until(get_with_status)

    async def now(self, domain: ComputeDomain) -> ComputeDomain | None:
        try:
            return await self.client.get(COMPUTE_DOMAINS, domain.metadata.name, "default")
        except NotFound:
            return None

    async def status(self, domain: ComputeDomain, wanted: str, nodes: int) -> ComputeDomain:
        async def get_if_reached() -> ComputeDomain | None:
            found = await self.now(domain)
            same = found and (found.status.status, len(found.status.nodes)) == (wanted, nodes)
            return found if same else None

        async def describe() -> str:
            return str(await self.now(domain))

        return await until(get_if_reached, 20.0, describe=describe)

    async def parts(self, uid: str) -> list[str]:
        """Return the names of the objects of a domain."""
        found = []
        for resource in (DAEMON_SETS, RESOURCE_CLAIM_TEMPLATES, CLIQUES):
            listed: Any = await self.client.list(resource, label_selector=f"{api.LABEL}={uid}")
            found += [
                f"{resource.kind} {item.metadata.namespace}/{item.metadata.name}" for item in listed.items
            ]
        return sorted(found)

    async def daemon_pod(self, domain: ComputeDomain, node: str, address: str) -> dict[str, str]:
        """Create a daemon's pod as the DaemonSet does. Return its container's environment."""
        uid = domain.metadata.uid
        pod = await self.create(
            "Pod",
            f"daemon-{node}",
            SPACE,
            metadata={"labels": {api.LABEL: uid}},
            spec={"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
        )
        await self.set_status("Pod", pod, podIP=address, podIPs=[{"ip": address}])
        return {
            "COMPUTE_DOMAIN_UUID": uid,
            "CLIQUE_ID": CLIQUE,
            "NODE_NAME": node,
            "POD_IP": address,
            "POD_UID": pod.metadata.uid,
            "POD_NAME": pod.metadata.name,
            "POD_NAMESPACE": SPACE,
        }

    async def ready(self, node: str, ready: bool = True) -> None:
        pod = await self.client.get(PODS, f"daemon-{node}", SPACE)
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        await self.set_status("Pod", pod, phase="Running", conditions=[condition])


@pytest.fixture
def host_managed() -> bool:
    return False


@pytest.fixture
async def lab(tmp_path: Path, host_managed: bool) -> AsyncIterator[Lab]:
    async with api_server(tmp_path) as cluster, contextlib.AsyncExitStack() as stack:
        await install(cluster.client, SPACE, host_managed=host_managed)
        gates, clock = NvidiaGates(), SystemClock()
        controller = ComputeDomainController(cluster.client, clock, SPACE, gates, host_managed=host_managed)
        task = asyncio.create_task(controller.run())
        stack.callback(task.cancel)
        yield Lab(cluster.url, cluster.client)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def daemon(lab: Lab, environment: dict[str, str]) -> AsyncIterator[ComputeDomainDaemon]:
    ended = asyncio.Event()
    found = ComputeDomainDaemon(lab.client, SystemClock(), environment)
    task = asyncio.create_task(found.run(ended))
    try:
        yield found
    finally:
        ended.set()
        await task


async def test_a_domain_becomes_ready_and_its_objects_are_deleted_with_it(lab: Lab) -> None:
    await install(lab.client, SPACE)
    domain = await lab.domain(numNodes=2)
    uid = domain.metadata.uid
    assert domain.metadata.finalizers == (api.FINALIZER,)
    assert domain.status.status == api.NOT_READY
    assert domain.spec.channel is not None
    assert domain.spec.channel.allocation_mode == "Single"
    assert await lab.parts(uid) == [
        f"DaemonSet {SPACE}/computedomain-daemon-{uid}",
        "ResourceClaimTemplate default/channel",
        f"ResourceClaimTemplate {SPACE}/computedomain-daemon-{uid}",
    ]
    a, b = await lab.daemon_pod(domain, "a", "10.0.0.1"), await lab.daemon_pod(domain, "b", "10.0.0.2")
    async with daemon(lab, a):
        await lab.status(domain, api.NOT_READY, 1)
        async with daemon(lab, b) as second:
            await lab.ready("a")
            await lab.ready("b")
            whole = await lab.status(domain, api.READY, 2)
            assert second.serving
            # The last writer's change is at the end of the clique.
            assert sorted((n.name, n.index, n.ip_address, n.clique_id) for n in whole.status.nodes) == [
                ("a", 0, "10.0.0.1", CLIQUE),
                ("b", 1, "10.0.0.2", CLIQUE),
            ]
            await lab.ready("b", ready=False)
            await lab.status(domain, api.NOT_READY, 2)
        # A daemon leaves the clique when it ends.
        await lab.status(domain, api.NOT_READY, 1)
        async with daemon(lab, b):
            await lab.ready("b")
            await lab.status(domain, api.READY, 2)
            # The node is lost: its pod is deleted, and its daemon does not leave the clique.
            await lab.delete("Pod", "daemon-a", SPACE, grace_period=0)
            left = await lab.status(domain, api.NOT_READY, 1)
            assert [(node.name, node.index) for node in left.status.nodes] == [("b", 1)]

    await lab.create("Node", "b", metadata={"labels": {api.LABEL: uid, "keep": "me"}})
    await lab.client.delete(COMPUTE_DOMAINS, "d", "default")

    async def is_gone() -> bool:
        return await lab.now(domain) is None

    await until(is_gone)
    # The garbage collector deletes the rest: its owners are the daemons' pods.
    assert await lab.parts(uid) == [f"ComputeDomainClique {SPACE}/{uid}.{CLIQUE}"]
    assert (await lab.client.get(NODES, "b")).metadata.labels.get(api.LABEL) is None


@pytest.mark.parametrize("host_managed", [True])
async def test_only_the_workload_template_is_created_if_hosts_manage_daemons(lab: Lab) -> None:
    obj = {"resourceClaimTemplate": {"name": "channel"}, "allocationMode": "All"}
    domain = await lab.domain(numNodes=2, channel=obj)
    uid = domain.metadata.uid
    # The number of nodes does not matter: the domain is ready as soon as its template exists.
    assert (domain.status.status, domain.status.nodes) == (api.READY, ())
    assert await lab.parts(uid) == ["ResourceClaimTemplate default/channel"]
    template = await lab.client.get(RESOURCE_CLAIM_TEMPLATES, "channel", "default")
    (config,) = template.spec.spec.devices.config
    assert config.opaque is not None
    assert config.opaque.parameters["allocationMode"] == "Single"
    await lab.client.delete(COMPUTE_DOMAINS, "d", "default")

    async def is_gone() -> bool:
        return await lab.now(domain) is None

    await until(is_gone)
    assert await lab.parts(uid) == []


class _Late(Client):
    """A client whose watches of templates deliver nothing until ``open`` is set."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.open = asyncio.Event()

    async def watch(
        self, resource: Resource[Any], *args: Any, **kwargs: Any
    ) -> AsyncIterator[WatchEvent[Any]]:
        async for event in super().watch(resource, *args, **kwargs):
            if resource is RESOURCE_CLAIM_TEMPLATES:
                await self.open.wait()
            yield event


async def test_a_domain_is_kept_until_its_objects_that_were_not_observed_yet_are_deleted(
    tmp_path: Path,
) -> None:
    async with api_server(tmp_path) as cluster, _Late(cluster.url) as late:
        await install(cluster.client, SPACE, host_managed=True)
        controller = ComputeDomainController(late, SystemClock(), SPACE, NvidiaGates(), host_managed=True)
        task = asyncio.create_task(controller.run())
        lab = Lab(cluster.url, cluster.client)
        domain = await lab.domain()
        await lab.client.delete(COMPUTE_DOMAINS, "d", "default")
        # A later domain has all parts, so the controller has observed the deletion.
        await lab.domain("after", template="other")
        left = await lab.now(domain)
        assert left is not None
        assert left.metadata.deletion_timestamp is not None
        late.open.set()

        async def is_gone() -> bool:
            return await lab.now(domain) is None

        await until(is_gone)
        assert await lab.parts(domain.metadata.uid) == []
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class _Old(Client):
    """A client whose first list of domains is older than ``known``. Its watches deliver none until ``open`` is set."""

    def __init__(self, url: str, known: ObjectList[ComputeDomain]) -> None:
        super().__init__(url)
        self.open = asyncio.Event()
        self._known = known

    async def list(self, resource: Resource[Any], *args: Any, **kwargs: Any) -> ObjectList[Any]:
        if resource is COMPUTE_DOMAINS and kwargs.get("resource_version") == "0":
            return self._known
        return await super().list(resource, *args, **kwargs)

    async def watch(
        self, resource: Resource[Any], *args: Any, **kwargs: Any
    ) -> AsyncIterator[WatchEvent[Any]]:
        async for event in super().watch(resource, *args, **kwargs):
            if resource is COMPUTE_DOMAINS:
                await self.open.wait()
            yield event


async def test_objects_of_a_domain_that_was_not_observed_yet_are_kept(tmp_path: Path) -> None:
    async with api_server(tmp_path) as cluster:
        await install(cluster.client, SPACE)
        known = await cluster.client.list(COMPUTE_DOMAINS)
        lab = Lab(cluster.url, cluster.client)
        async with _run_controller(cluster.client):
            uid = (await lab.domain()).metadata.uid
        parts = await lab.parts(uid)
        async with _Old(cluster.url, known) as old, _run_controller(old) as worked:
            await worked.wait()
            assert await lab.parts(uid) == parts
            for resource in (DAEMON_SETS, RESOURCE_CLAIM_TEMPLATES):
                found: Any = await lab.client.list(resource, label_selector=f"{api.LABEL}={uid}")
                assert {item.metadata.deletion_timestamp for item in found.items} == {None}
            old.open.set()
            await lab.client.delete(COMPUTE_DOMAINS, "d", "default")

            async def is_gone() -> bool:
                return await lab.parts(uid) == []

            await until(is_gone)


@contextlib.asynccontextmanager
async def _run_controller(client: Client) -> AsyncIterator[asyncio.Event]:
    """Run a controller. The event is set after each sync."""
    controller = ComputeDomainController(client, SystemClock(), SPACE, NvidiaGates())
    reconcile, worked = controller.reconcile, asyncio.Event()

    async def reconcile_and_signal(uid: str) -> None:
        await reconcile(uid)
        worked.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(controller, "reconcile", reconcile_and_signal)
        task = asyncio.create_task(controller.run())
        yield worked
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_invalid_domains_are_rejected_and_foreign_templates_are_kept(lab: Lab) -> None:
    ready = await lab.domain("no-nodes")
    assert ready.status.status == api.READY

    await _check_rejected(lab.domain("wrong", numNodes=-1), "spec.numNodes")
    await _check_rejected(lab.domain("wrong", channel={"resourceClaimTemplate": {}}), "name: Required value")
    with pytest.raises(Invalid, match=r"A computeDomain\.spec is immutable"):
        await lab.client.patch(COMPUTE_DOMAINS, "no-nodes", {"spec": {"numNodes": 4}}, "default")

    # A template of that name that belongs to someone else stays, and the domain does not progress.
    spec = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}}
    await lab.create("ResourceClaimTemplate", "taken", spec=spec)
    obj = {"channel": {"resourceClaimTemplate": {"name": "taken"}}}
    made = await lab.client.create(
        COMPUTE_DOMAINS,
        convert(COMPUTE_DOMAINS, {"metadata": {"name": "late", "namespace": "default"}, "spec": obj}),
    )

    async def parts() -> bool:
        return len(await lab.parts(made.metadata.uid)) == 2

    await until(parts)
    await lab.delete("ResourceClaimTemplate", "taken")
    await lab.status(made, api.READY, 0)

    environment = await lab.daemon_pod(ready, "a", "10.0.0.1")
    async with daemon(lab, {**environment, "CLIQUE_ID": ""}) as outside:
        assert outside.serving
        await lab.ready("a")
        found = await lab.status(ready, api.READY, 1)
        assert (found.status.nodes[0].clique_id, found.status.nodes[0].index) == ("", -1)


async def _check_rejected(attempt: Awaitable[object], message: str) -> None:
    with pytest.raises(ApiError, match=message):
        await attempt
