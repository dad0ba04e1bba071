"""A node's reports against a real API server."""

import asyncio
from pathlib import Path

import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_node_agent.kubelet.node import NodeReporter, NodeShape
from dra_shared.api.node import NodeStatus
from dra_shared.api.resources import LEASES, NODES
from dra_shared.client.errors import NotFound
from dra_shared.client.events import Recorder
from dra_shared.client.informer import Informer
from dra_shared.client.rest import Client, PatchType
from dra_shared.clock import FakeClock, SystemClock

from tests.support.waiting import until


def _ready(status: NodeStatus) -> str:
    return next(entry.status for entry in status.conditions if entry.type == "Ready")


async def test_a_node_that_was_marked_unknown_reports_ready_again(tmp_path: Path) -> None:
    config = Config(port=0, data=tmp_path, database=IN_MEMORY)
    clock = SystemClock()
    async with ApiServer(config) as server, Client(server.url) as client:
        recorder = Recorder(client, "kubelet", clock=clock)
        reporter = NodeReporter(NodeShape("node-0"), client, clock, recorder, lambda: True)
        running = asyncio.create_task(reporter.run())
        await until(lambda: reporter._reported_at is not None)
        lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        body = {"status": {"conditions": [lost]}}
        await client.patch(NODES, "node-0", body, patch_type=PatchType.STRATEGIC, subresource="status")
        await reporter.report()
        assert _ready((await client.get(NODES, "node-0")).status) == "True"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_node_status_report_uses_the_watched_node_instead_of_reading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, clock = Config(port=0, data=tmp_path, database=IN_MEMORY), SystemClock()
    async with ApiServer(config) as server, Client(server.url) as client, Client(server.url) as other:
        nodes = Informer(other, NODES, clock=clock)
        recorder = Recorder(client, "kubelet", clock=clock)
        reporter = NodeReporter(NodeShape("node-0"), client, clock, recorder, lambda: True, nodes=nodes)
        running = [asyncio.create_task(reporter.run()), asyncio.create_task(nodes.run())]
        await until(lambda: reporter._lease is not None and nodes.store.get("node-0") is not None)
        monkeypatch.setattr(client, "get", None)
        lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        body = {"status": {"conditions": [lost]}}
        await other.patch(NODES, "node-0", body, patch_type=PatchType.STRATEGIC, subresource="status")
        await until(lambda: (seen := nodes.store.get("node-0")) and _ready(seen.status) == "Unknown")
        await reporter.report()
        assert _ready((await other.get(NODES, "node-0")).status) == "True"
        # The kubelet's own write counts, although the watch may not have shown it yet.
        written = reporter.node.metadata.resource_version
        await reporter.report()
        assert reporter.node.metadata.resource_version == written
        monkeypatch.undo()
        await other.delete(NODES, "node-0")
        await until(lambda: nodes.store.get("node-0") is None)
        await reporter.report()
        assert reporter.node.metadata.uid == (await other.get(NODES, "node-0")).metadata.uid
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def test_a_silenced_node_does_not_renew_its_lease(tmp_path: Path) -> None:
    config, clock = Config(port=0, data=tmp_path, database=IN_MEMORY), FakeClock()
    async with ApiServer(config, clock) as server, Client(server.url) as client:
        recorder = Recorder(client, "kubelet", clock=clock)
        reporter = NodeReporter(NodeShape("node-0"), client, clock, recorder, lambda: True)

        async def get_renew_time() -> str:
            try:
                return (await client.get(LEASES, "node-0", "kube-node-lease")).spec.renew_time or ""
            except NotFound:
                return ""

        async def renewed_since(before: str) -> bool:
            return await get_renew_time() > before

        running = asyncio.create_task(reporter.run())
        await until(get_renew_time, clock=clock)
        with reporter.silence():
            # Pending writes have arrived once the next report waits.
            await until(lambda: reporter._speaking._waiters, clock=clock)
            before = await get_renew_time()
            await clock.advance(60)
            assert await get_renew_time() == before
        await until(lambda: renewed_since(before), clock=clock)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_lease_that_was_deleted_with_its_node_is_created_again(tmp_path: Path) -> None:
    config, clock = Config(port=0, data=tmp_path, database=IN_MEMORY), FakeClock()
    async with ApiServer(config, clock) as server, Client(server.url) as client:
        recorder = Recorder(client, "kubelet", clock=clock)
        reporter = NodeReporter(NodeShape("node-0"), client, clock, recorder, lambda: True)

        async def get_uid() -> str:
            try:
                return (await client.get(LEASES, "node-0", "kube-node-lease")).metadata.uid
            except NotFound:
                return ""

        running = asyncio.create_task(reporter.run())
        first = await until(get_uid, clock=clock)
        # As the garbage collector does, when the node is deleted and registers again.
        await client.delete(LEASES, "node-0", "kube-node-lease")
        second = await until(get_uid, clock=clock)
        assert first != second
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_node_registers_again_each_time_it_is_deleted(tmp_path: Path) -> None:
    config, clock = Config(port=0, data=tmp_path, database=IN_MEMORY), FakeClock()
    async with ApiServer(config, clock) as server, Client(server.url) as client:
        recorder = Recorder(client, "kubelet", clock=clock)
        reporter = NodeReporter(NodeShape("node-0"), client, clock, recorder, lambda: True)
        await reporter._until_done(reporter._register)
        uids = [reporter.node.metadata.uid]
        for _ in range(2):
            # Nothing was reported since it registered.
            await client.delete(NODES, "node-0")
            await reporter.report()
            uids.append((await client.get(NODES, "node-0")).metadata.uid)
        assert len({*uids}) == 3
