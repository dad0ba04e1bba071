"""``dralab fault``: invalid faults are rejected, and faults are undone."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_cli import commandline
from dra_kube.cluster import Cluster, Record, ServiceRecord
from dra_lab.faults.rest import Rest
from dra_lab.faults.script import Step
from dra_lab.faults.storm import Storm
from dra_lab.faults.striking import Striker
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resource import DeviceClass
from dra_shared.api.resources import DEVICE_CLASSES, PODS
from dra_shared.client.errors import ApiError
from dra_shared.errors import UserError
from dra_shared.faults.catalog import KINDS
from dra_shared.service import HealthServer

from tests.support.agentfaults import Strikes

pytestmark = pytest.mark.system


@contextlib.asynccontextmanager
async def _cluster(folder: Path) -> AsyncIterator[Cluster]:
    """Run an API server, and a service in place of the scheduler."""
    cluster = Cluster(folder)
    with cluster.locked():
        async with ApiServer(Config(port=0, data=folder, database=IN_MEMORY)) as server:
            services = {"scheduler": ServiceRecord(pid=0, url=server.url)}
            cluster.write(Record(pid=os.getpid(), server=server.url, services=services))
            cluster.write_kubeconfig(server.url)
            yield cluster


async def test_the_fault_command_clear_ends_all_faults(tmp_path: Path) -> None:
    async with _cluster(tmp_path) as cluster:
        struck = await Striker(cluster).strike("error", {"seconds": 600, "code": 503})
        async with cluster.client("kubectl") as client:
            with pytest.raises(ApiError, match="a fault on demand"):
                await client.list(PODS)
            # The request of the observer is not affected by any fault.
            assert await Rest(cluster).wait(30) == []
            assert await struck.count_affected() == 1
            # Another program may send the same request.
            await Striker(cluster).clear()
            await client.list(PODS)
        assert await struck.count_affected() == 1


async def test_a_checked_fault_does_not_end_other_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once, it ended all active faults, including those of nodes and processes."""
    strikes = Strikes()
    async with _cluster(tmp_path) as cluster, strikes.serve() as url:
        record = cluster.record()
        record.services["node-agent"] = ServiceRecord(pid=0, url=url)
        cluster.write(record)
        striker = Striker(cluster)
        await striker.strike("driver-slow", {"seconds": 600, "node": "node-0"})
        await striker.strike("latency", {"seconds": 600, "delay": 0.01})
        words = ["conflict", "--for", "0.6", "--data", str(tmp_path)]
        assert await asyncio.to_thread(commandline.run, "fault", words) == 0
        assert strikes.ended == []
        assert await striker.active_faults() == ["driver-slow", "latency"]
        shown = capsys.readouterr().out
        assert "the cluster at rest, because other faults are active: driver-slow, latency" in shown
        second = await striker.strike("driver-slow", {"seconds": 600, "node": "node-1"})
        await second.end()
        assert [one.node for one in strikes.ended] == ["node-1"]
        await striker.clear()
        assert await striker.active_faults() == []


async def test_a_cluster_is_not_at_rest_without_one_of_its_services(tmp_path: Path) -> None:
    async with _cluster(tmp_path) as cluster:
        record = cluster.record()
        async with HealthServer("127.0.0.1", 0, {"up": lambda: False}) as dead:
            record.services["scheduler"].url = f"http://127.0.0.1:{dead.port}"
            cluster.write(record)
            assert await Rest(cluster).wait(0.3) == ["scheduler is not ready"]


async def test_errors_of_the_api_server_are_shown(tmp_path: Path) -> None:
    async with _cluster(tmp_path) as cluster:
        with pytest.raises(UserError, match="delay: must be above 0 and at most seconds"):
            await Striker(cluster).strike("latency", {"seconds": 1, "delay": 2})
        with pytest.raises(UserError, match="there is no service 'kubelet': choose scheduler, controller"):
            await Striker(cluster).strike("loss", {"seconds": 1, "service": "kubelet"})
        with pytest.raises(UserError, match="the cluster has no supervisor"):
            await Striker(cluster).strike("stop", {"service": "scheduler", "seconds": 1})


async def test_a_fault_of_a_node_is_sent_to_its_agent(tmp_path: Path) -> None:
    strikes = Strikes()
    async with _cluster(tmp_path) as cluster, strikes.serve() as url:
        record = cluster.record()
        # Like an agent that has other nodes, the API server rejects the fault as unknown.
        record.services = {
            "node-agent-a": ServiceRecord(pid=0, url=record.server),
            "node-agent-b": ServiceRecord(pid=0, url=url),
        }
        cluster.write(record)
        striker = Striker(cluster)
        await striker.strike("driver-slow", {"seconds": 600, "node": "node-1", "delay": 3})
        assert [(one.fault, one.node, one.delay) for one in strikes.begun] == [("driver-slow", "node-1", 3)]
        await striker.clear()
        assert strikes.ended == strikes.begun
        # In either order, the answer of the agent that has the node counts.
        for services in (record.services, dict(reversed(record.services.items()))):
            record.services = services
            cluster.write(record)
            with pytest.raises(UserError, match="there is no fault 'xid': choose driver-slow"):
                await striker.strike("xid", {"seconds": 1, "node": "node-1"})


async def test_a_storm_counts_the_faults_that_were_rejected(tmp_path: Path) -> None:
    async with _cluster(tmp_path) as cluster:
        async with cluster.client("kubectl") as client:
            await client.create(DEVICE_CLASSES, DeviceClass(metadata=ObjectMeta(name="it")))
        storm = Storm(cluster, "it", lambda line: None, rest=5)
        # No node agent of this cluster has a node.
        await storm.run(
            [Step(0, "xid", {"seconds": 1, "node": "node-7"}), Step(0, "conflict", {"seconds": 1})]
        )
        assert storm.refused == 1


async def test_a_storm_without_its_device_class_fails(tmp_path: Path) -> None:
    async with _cluster(tmp_path) as cluster:
        with pytest.raises(UserError, match="there is no DeviceClass 'nope'"):
            await Storm(cluster, "nope", lambda line: None).run([])


def test_the_fault_command_without_a_name_lists_all_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert commandline.run("fault", []) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(KINDS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["flood"], "there is no fault 'flood': choose latency, error, "),
        (
            ["watch-cut", "scheduler"],
            "watch-cut is a fault of the API server's watches: leave 'scheduler' out",
        ),
        (["stop", "scheduler"], "no cluster is running in "),
        (["two-schedulers", "kubelet"], "two-schedulers is a fault of the scheduler: leave 'kubelet' out"),
        (["kill", "--xid", "79"], "--xid does nothing with kill: it is for xid"),
        (["watch-cut", "--agent", "x"], "--agent does nothing with watch-cut: it is for latency, error, "),
        (["error", "--code", "418"], "invalid choice: 418"),
        (["error", "--for", "0"], "0 is not between 0.1 and 3600"),
        (["error", "--for", "nan"], "nan is not between 0.1 and 3600"),
        (["clear", "node-0"], "clear ends every fault: leave 'node-0' out"),
        (["clear", "--gpu", "1"], "--gpu does nothing with clear: it is for xid"),
    ],
)
def test_errors_of_the_fault_command_are_one_line(tmp_path: Path, words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        commandline.run("fault", [*words, "--data", str(tmp_path)])


def test_the_script_of_a_storm_is_printed_without_starting_a_cluster(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert commandline.run("storm", ["--script", "--minutes", "0.2", "--seed", "3"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["0.00", "s", "create", "pod=storm-0", shown[0].split()[-1]]
    with pytest.raises(UserError, match="leave out --detach"):
        commandline.run("storm", ["--detach"])
    with pytest.raises(UserError, match="a storm needs a node"):
        commandline.run("storm", ["--nodes", "0"])
    assert commandline.run("storm", ["--script", "--nodes", "1", "--nodes", "1:8xH100-SXM5-80GB"]) == 0
    assert " node=node-0" not in capsys.readouterr().out
