"""A bundle has a cluster's past, and a new cluster begins with it."""

import asyncio
import json
import tarfile
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_cli import bundle
from dra_cli.errors import CommandError
from dra_cli.reader import Reader
from dra_cli.restore.past import past
from dra_shared.retention import parse_retention
from dra_shared.service import CannotRun

Json = dict[str, Any]
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
MERGE = {"Content-Type": "application/merge-patch+json", "User-Agent": "kubectl/v1.36"}


async def _incident(client: httpx.AsyncClient) -> list[str]:
    """A ConfigMap that is made, changed and removed, and a pod that runs; gives the revisions of the first."""
    await client.post("/api/v1/nodes", json={"metadata": {"name": "n"}})
    await client.post("/api/v1/namespaces/default/serviceaccounts", json={"metadata": {"name": "default"}})
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "x"}]}
    await client.post(PODS, json={"metadata": {"name": "p"}, "spec": spec})
    status = {"phase": "Running", "podIP": "10.0.0.1"}
    await client.patch(f"{PODS}/p/status", content=json.dumps({"status": status}), headers=MERGE)
    made = await client.post(MAPS, json={"metadata": {"name": "a"}, "data": {"x": "1"}})
    changed = await client.patch(f"{MAPS}/a", content=json.dumps({"data": {"x": "2"}}), headers=MERGE)
    gone = await client.delete(f"{MAPS}/a")
    assert (made.status_code, changed.status_code, gone.status_code) == (201, 200, 200)
    return [one.json()["metadata"]["resourceVersion"] for one in (made, changed)]


async def _bundle(server: ApiServer, file: Path, at: str = "") -> None:
    def write() -> None:
        with Reader(server.url) as reader:
            assert bundle.write(reader, None, file, at) == []

    await asyncio.to_thread(write)


async def test_an_incident_is_replayed_from_a_bundle(tmp_path: Path) -> None:
    """Moments, authors and uids are those of the other cluster; what ran there is to be started again."""
    file = tmp_path / "bundle.tar.gz"
    async with (
        ApiServer(Config(port=0, data=tmp_path / "old", relaxed=True)) as server,
        httpx.AsyncClient(base_url=server.url) as client,
    ):
        made, changed = await _incident(client)
        pod = (await client.get(f"{PODS}/p")).json()
        newest = server.store.revision
        await _bundle(server, file)
    found = past(str(file), tmp_path)
    assert found is not None
    config = Config(port=0, data=tmp_path / "new", relaxed=True, past=found, retention=parse_retention("all"))
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as client:
        assert server.store.revision > newest
        assert (await client.get(f"{MAPS}/a")).status_code == 404
        for revision, value in ((made, "1"), (changed, "2")):
            answer = await client.get(f"/at/{revision}{MAPS}/a")
            assert answer.json()["data"] == {"x": value}, answer.text
        changes = (await client.get(f"/history{MAPS}/a")).json()["items"]
        assert [(one["type"], one.get("agent"), one["revision"]) for one in changes[:2]] == [
            ("ADDED", changes[0]["agent"], made),
            ("MODIFIED", "kubectl/v1.36", changed),
        ]
        assert changes[1]["changes"] == [{"path": ".data.x", "old": "1", "new": "2"}]
        now = (await client.get(f"{PODS}/p")).json()
        assert now["metadata"]["uid"] == pod["metadata"]["uid"]
        assert (now["status"]["phase"], now["status"].get("podIP")) == ("Pending", None)
        before = (await client.get(f"/at/{newest}{PODS}/p")).json()
        assert (before["status"]["phase"], before["status"]["podIP"]) == ("Running", "10.0.0.1")
        assert await server.store.check() == []
        oldest = (await client.get("/history")).json()["oldest"]
        assert (await client.get(f"/at/{oldest['revision']}/api/v1/namespaces")).status_code == 200
    # The next start goes on from the database.
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as client:
        assert (await client.get(f"/at/{made}{MAPS}/a")).json()["data"] == {"x": "1"}


async def test_a_bundle_can_end_at_a_past_moment(tmp_path: Path) -> None:
    file = tmp_path / "bundle.tar.gz"
    async with (
        ApiServer(Config(port=0, data=tmp_path / "old", relaxed=True)) as server,
        httpx.AsyncClient(base_url=server.url) as client,
    ):
        _, changed = await _incident(client)
        await _bundle(server, file, changed)
        with pytest.raises(Exception, match="Too large resource version"):
            await _bundle(server, tmp_path / "other.tar.gz", str(server.store.revision + 100))
        assert not (tmp_path / "other.tar.gz").exists()
    with tarfile.open(file) as archive:
        maps = json.load(_open(archive, "objects/configmaps.core.json"))["items"]
        history = [json.loads(line) for line in _open(archive, "history/configmaps.core.jsonl")]
    assert {one["metadata"]["name"]: one["data"].get("x") for one in maps}["a"] == "2"
    assert [one["type"] for one in history if one["name"] == "a"] == ["ADDED", "MODIFIED"]


def _open(archive: tarfile.TarFile, name: str) -> Any:
    return archive.extractfile(f"dralab-bundle/{name}")


def test_what_is_no_bundle_has_no_past(tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text("kind: Node")
    assert past(str(dump), tmp_path) is None
    assert past(str(tmp_path), tmp_path) is None
    older = tmp_path / "older.tar"
    with tarfile.open(older, "w") as archive:
        archive.add(dump, "dralab-bundle/objects/nodes.core.yaml")
    assert past(str(older), tmp_path) is None
    broken = tmp_path / "broken.tar"
    begin = tmp_path / "begin.json"
    begin.write_text("{}")
    with tarfile.open(broken, "w") as archive:
        archive.add(begin, "dralab-bundle/begin.json")
    with pytest.raises(CommandError, match="cannot read the history in"):
        past(str(broken), tmp_path)


async def test_a_file_that_is_no_past_keeps_the_server_from_starting(tmp_path: Path) -> None:
    file = tmp_path / "past.jsonl"
    file.write_text("nonsense\n")
    with pytest.raises(CannotRun, match=r"past\.jsonl is no past of a cluster"):
        async with ApiServer(Config(port=0, data=tmp_path / "new", relaxed=True, past=file)):
            pass
