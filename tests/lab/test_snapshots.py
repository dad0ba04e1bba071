"""Snapshots of a cluster: their files, and restores that are rejected."""

import asyncio
import gzip
import json
import random
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_cli import commandline
from dra_kube.cluster import Cluster, Record
from dra_lab import snapshots
from dra_lab.clusteroptions import ClusterOptions
from dra_lab.services import ClusterServices
from dra_lab.snapshots import Snapshots
from dra_shared.client.errors import ApiError
from dra_shared.errors import UserError
from dra_worlds.fleet import Pool, Pools

from tests.support.warm import warm_forks

ABOUT = {"kubernetes": "1.36", "revision": "7", "time": "2026-01-02T03:04:05Z"}


def _write(folder: Path, name: str, *items: dict[str, Any], time: str = "", **more: Any) -> Path:
    about = {**ABOUT, "time": time or ABOUT["time"]}
    document = {"kind": "List", "apiVersion": "v1", "metadata": {}, "snapshot": about, **more, "items": items}
    file = folder / "snapshots" / f"{name}.json.gz"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(gzip.compress(json.dumps(document, separators=(",", ":")).encode()))
    return file


def test_snapshots_are_listed_from_the_oldest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commandline.run("snapshot", ["list", "--data", str(tmp_path)])
    assert capsys.readouterr().out == "No snapshots found.\n"
    _write(tmp_path, "b")
    _write(tmp_path, "a", time="2026-01-02T03:05:00Z")
    (tmp_path / "snapshots" / "torn.json.gz").write_bytes(b"\x1f\x8b")
    commandline.run("snapshot", ["list", "--data", str(tmp_path)])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["NAME", "TIME", "REVISION", "KUBERNETES", "SIZE"],
        ["b", "2026-01-02T03:04:05Z", "7", "1.36", "0", "KiB"],
        ["a", "2026-01-02T03:05:00Z", "7", "1.36", "0", "KiB"],
    ]


def test_a_snapshot_is_deleted_by_its_name(tmp_path: Path) -> None:
    file = _write(tmp_path, "a")
    commandline.run("snapshot", ["delete", "a", "--data", str(tmp_path)])
    assert not file.exists()
    _write(tmp_path, "b")
    with pytest.raises(UserError, match=r"there is no snapshot a in .*snapshots; there are b"):
        commandline.run("snapshot", ["delete", "a", "--data", str(tmp_path)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["save"], "say which: dralab snapshot save NAME"),
        (["save", "../x"], "'../x' cannot be a snapshot's name"),
        (["save", "a"], "snapshot a already exists"),
        (["save", "b"], "no cluster is running in"),
        (["restore", "b"], "there is no snapshot b in .*; there are a"),
        (["restore", "a"], "no cluster is running in"),
        (["restore", "a", "--at", "-5m"], "--at is for dralab snapshot save"),
        (["save", "b", "--timeout", "5"], "--timeout is for dralab snapshot restore"),
        (["list", "a"], "dralab snapshot list takes no name"),
    ],
)
def test_invalid_arguments_of_the_snapshot_command_are_rejected(
    tmp_path: Path, words: list[str], message: str
) -> None:
    _write(tmp_path, "a")
    with pytest.raises(UserError, match=message):
        commandline.run("snapshot", [*words, "--data", str(tmp_path)])


def test_up_finds_a_snapshot_by_its_name_or_file(tmp_path: Path) -> None:
    pool = json.loads(Pool(name="gpu", count=3, gpus="4xH100-SXM5-80GB").text())
    file = _write(tmp_path, "a", pools=[pool])
    there = (tmp_path / "elsewhere",)
    assert snapshots.find("a", [tmp_path]) == snapshots.find(str(file), there) == file
    # `dralab up --from a --data elsewhere`
    assert snapshots.find("a", [*there, tmp_path]) == file
    assert snapshots.find("a", there) is None
    assert snapshots.pools_of(file) == [Pool(name="gpu", count=3, gpus="4xH100-SXM5-80GB")]
    dump = tmp_path / "dump.json"
    dump.write_text('{"kind": "List", "apiVersion": "v1", "items": []}')
    assert snapshots.find(str(dump), [tmp_path]) is None
    assert snapshots.find("b", [tmp_path]) is None


def test_a_damaged_snapshot_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.json.gz"
    file.write_bytes(gzip.compress(b'{"snapshot":{}'))
    with pytest.raises(UserError, match=f"cannot read the snapshot {file}"):
        snapshots.content(file)
    whole = bytearray(gzip.compress(random.Random(1).randbytes(4000)))
    # The first block names a version of the format that does not exist.
    whole[10] = 0x07
    file.write_bytes(whole)
    with pytest.raises(UserError, match=f"cannot read the snapshot {file}: Error -3"):
        snapshots.content(file)
    assert snapshots.header(file) is None


async def _home(server: ApiServer, data: Path) -> None:
    """Write the record of a cluster for a server that this test runs."""
    cluster = Cluster(data)
    cluster.write_kubeconfig(server.url)
    cluster.write(Record(pid=1, server=server.url, ready=True))


async def test_a_restore_with_other_nodes_is_rejected(tmp_path: Path) -> None:
    """It is rejected before anything is written."""
    async with ApiServer(Config(port=0, data=tmp_path / "api", relaxed=True)) as server:
        node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "old-0"}}
        _write(tmp_path, "a", node)
        with Cluster(tmp_path).locked():
            await _home(server, tmp_path)
            before = server.store.revision
            await _check_rejected(
                tmp_path,
                f"this cluster has no node old-0: .*: dralab up --from {tmp_path}/snapshots/a.json.gz --data",
            )
            Pools(tmp_path).write(Pool(name="new", count=2))
            await _check_rejected(
                tmp_path, "the snapshot has no node new-0, new-1: `dralab node remove new-0 new-1`"
            )
            assert server.store.revision == before
            Pools(tmp_path).remove("new")
            Pools(tmp_path).write(Pool(name="old", count=1))
            body = snapshots.content(tmp_path / "snapshots" / "a.json.gz")
            with pytest.raises(ApiError, match="the snapshot is of Kubernetes 1"):
                async with Cluster(tmp_path).client("test") as client:
                    await snapshots.put(client, body.replace(b'"1.36"', b'"1.20"'))


async def _check_rejected(data: Path, message: str) -> None:
    with pytest.raises(UserError, match=message):
        await asyncio.to_thread(Snapshots(data).restore, "a", 1.0)


@pytest.mark.system
async def test_a_cluster_starts_from_a_snapshot(tmp_path: Path) -> None:
    """All objects exist before scheduler and controllers start, also those that plans do not need."""
    async with (
        ApiServer(Config(port=0, data=tmp_path / "api", relaxed=True)) as server,
        httpx.AsyncClient(base_url=server.url) as client,
    ):
        secret = {"metadata": {"name": "s"}, "stringData": {"x": "1"}}
        await client.post("/api/v1/namespaces/default/secrets", json=secret)
        with Cluster(tmp_path).locked():
            await _home(server, tmp_path)
            count = await asyncio.to_thread(Snapshots(tmp_path).save, "a")
    file = snapshots.find("a", [tmp_path])
    assert count > 50
    assert file is not None
    other = Cluster(tmp_path / "other")
    options = ClusterOptions(
        nodes=0, port=0, relaxed=True, snapshot=file, without=("scheduler", "node-agent")
    )
    with other.locked(), warm_forks() as forks:
        async with ClusterServices(other, options, lambda _: None, forks).run() as url:
            async with httpx.AsyncClient(base_url=url) as client:
                found = (await client.get("/api/v1/namespaces/default/secrets/s")).json()
            assert found["data"] == {"x": "MQ=="}
