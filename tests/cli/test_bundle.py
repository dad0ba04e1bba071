"""A bundle contains the history of a cluster, and a new cluster starts from it."""

import asyncio
import base64
import json
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_cli import bundle
from dra_kube.reader import Reader
from dra_lab.restore.past import past
from dra_shared.api.meta import Status
from dra_shared.client.errors import Expired
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject
from dra_shared.retention import parse_retention
from dra_shared.service import CannotRun

from tests.support.waiting import until

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
MERGE = {"Content-Type": "application/merge-patch+json", "User-Agent": "kubectl/v1.36"}


async def _incident(client: httpx.AsyncClient) -> list[str]:
    """Create, change and delete a ConfigMap, and run a pod. Return the revisions of the ConfigMap."""
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
    """Times, authors and UIDs are those of the other cluster. Its pods are started again."""
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
    # The next start continues from the database.
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


def test_a_file_that_is_not_a_bundle_has_no_history(tmp_path: Path) -> None:
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
    with pytest.raises(UserError, match="cannot read the history in"):
        past(str(broken), tmp_path)


async def test_an_invalid_history_file_prevents_the_server_from_starting(tmp_path: Path) -> None:
    file = tmp_path / "past.jsonl"
    file.write_text("nonsense\n")
    with pytest.raises(CannotRun, match=r"past\.jsonl is not the history of a cluster"):
        async with ApiServer(Config(port=0, data=tmp_path / "new", relaxed=True, past=file)):
            pass


_GROUP = "/apis/example.com/v1"


def _definition() -> JsonObject:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "racks", "singular": "rack", "kind": "Rack"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "racks.example.com"},
        "spec": spec,
    }


async def _serves(client: httpx.AsyncClient) -> bool:
    return (await client.get(f"{_GROUP}/racks")).status_code == 200


async def test_custom_resources_are_part_of_the_history(tmp_path: Path) -> None:
    """Without its compute domain, a pod of the incident would stay pending."""
    file = tmp_path / "bundle.tar.gz"
    async with (
        ApiServer(Config(port=0, data=tmp_path / "old", relaxed=True)) as server,
        httpx.AsyncClient(base_url=server.url) as client,
    ):
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (await client.post(definitions, json=_definition())).status_code == 201
        await until(partial(_serves, client))
        rack = {
            "apiVersion": "example.com/v1",
            "kind": "Rack",
            "metadata": {"name": "r"},
            "spec": {"rows": 1},
        }
        path = f"{_GROUP}/namespaces/default/racks"
        made = (await client.post(path, json=rack)).json()
        changed = await client.patch(f"{path}/r", content=json.dumps({"spec": {"rows": 2}}), headers=MERGE)
        assert changed.status_code == 200
        await _bundle(server, file)
    config = Config(port=0, data=tmp_path / "new", relaxed=True, past=past(str(file), tmp_path))
    config = replace(config, retention=parse_retention("all"))
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as client:
        now = (await client.get(f"{path}/r")).json()
        assert (now["spec"], now["metadata"]["uid"]) == ({"rows": 2}, made["metadata"]["uid"])
        before = (await client.get(f"/at/{made['metadata']['resourceVersion']}{path}/r")).json()
        assert before["spec"] == {"rows": 1}
        assert await server.store.check() == []


class _Expiring(Reader):
    """A reader whose server deletes history meanwhile: the first two revisions are gone when they are requested."""

    gone = 2

    def read(self, path: str, params: Mapping[str, str | None] | None = None, accept: str = "") -> bytes:
        if path == "/history" and params != {"at": "now"} and self.gone:
            self.gone -= 1
            raise Expired(Status(code=410, reason="Expired"))
        return super().read(path, params, accept)


async def test_a_bundle_begins_at_a_later_revision_if_history_is_deleted_while_it_is_read(
    tmp_path: Path,
) -> None:
    file = tmp_path / "bundle.tar.gz"
    config = Config(port=0, data=tmp_path / "data", relaxed=True)
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as client:
        await _incident(client)
        newest = server.store.revision

        def write() -> None:
            with _Expiring(server.url) as reader:
                assert bundle.write(reader, None, file) == []

        await asyncio.to_thread(write)
    with tarfile.open(file) as archive:
        begin = json.load(_open(archive, "begin.json"))
    assert 0 < int(begin["revision"]) < newest


def test_a_folder_as_output_is_rejected_before_any_request(tmp_path: Path) -> None:
    with Reader("http://127.0.0.1:1") as reader, pytest.raises(UserError, match="it is a folder"):
        bundle.write(reader, None, tmp_path)


@pytest.mark.parametrize("secrets", ["keys", "values", "none"])
async def test_a_bundle_has_keys_of_secrets_without_values_by_default(tmp_path: Path, secrets: str) -> None:
    """Neither objects nor their history nor kubectl's annotations contain a value."""
    file = tmp_path / "bundle.tar.gz"
    value, other = base64.b64encode(b"hush").decode(), base64.b64encode(b"hush again").decode()
    applied = json.dumps({"data": {"password": value}})
    async with (
        ApiServer(Config(port=0, data=tmp_path / "old", relaxed=True)) as server,
        httpx.AsyncClient(base_url=server.url) as client,
    ):
        path = "/api/v1/namespaces/default/secrets"
        meta = {"name": "s", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied}}
        assert (await client.post(path, json={"metadata": meta, "data": {"password": value}})).is_success
        changes: list[JsonObject] = [
            {"data": {"password": other}},
            {"data": {"more": value}},
            {"metadata": {"annotations": None}, "data": None},
            {"metadata": {"annotations": meta["annotations"]}, "data": {"password": value}},
        ]
        for change in changes:
            answer = await client.patch(f"{path}/s", content=json.dumps(change), headers=MERGE)
            assert answer.status_code == 200, answer.text

        def write() -> None:
            with Reader(server.url) as reader:
                assert bundle.write(reader, None, file, secrets=secrets) == []

        await asyncio.to_thread(write)
    with tarfile.open(file) as archive:
        texts = {
            name: content.read().decode()
            for name in archive.getnames()
            if "secrets.core" in name and (content := archive.extractfile(name)) is not None
        }
    assert bool(texts) == (secrets != "none")
    found = "".join(texts.values())
    assert ("password" in found) == (secrets != "none")
    assert (value in found or other in found) == (secrets == "values")
