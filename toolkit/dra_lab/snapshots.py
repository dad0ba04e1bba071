"""Snapshots of a cluster of ours: files in its directory from which the whole cluster can be restored.

A snapshot is a List of all objects as the API server has stored them (its ``/snapshot``), with the pools of nodes that
the cluster had, packed with gzip.
"""

import asyncio
import gzip
import json
import re
import shlex
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import msgspec
from dra_kube.cluster import Cluster, replace
from dra_shared.api.resources import NODES, PODS
from dra_shared.boundedfiles import read_all
from dra_shared.client.errors import from_response
from dra_shared.client.rest import Client
from dra_shared.errors import UserError
from dra_worlds.fleet import Pool, Pools, pool

_SUFFIX = ".json.gz"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ITEMS = b'"items":['
_HEAD = 1 << 16
_MOST = 1 << 30
_POLL = 0.02
_PATH = "/snapshot"
_OVER = ("Succeeded", "Failed")


class _About(msgspec.Struct):
    kubernetes: str
    revision: str
    time: str


class _Saved(msgspec.Struct):
    """A snapshot's file. Its objects are not parsed."""

    snapshot: _About
    items: list[msgspec.Raw]
    pools: list[dict[str, Any]] = []


class _Meta(msgspec.Struct):
    name: str
    namespace: str = ""


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: list[_Condition] = []


class _Kind(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str
    metadata: _Meta


class _Pod(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)


_saved = msgspec.json.Decoder(_Saved).decode
_kind = msgspec.json.Decoder(_Kind).decode
_pod = msgspec.json.Decoder(_Pod).decode


@dataclass(frozen=True)
class Restored:
    """The changes of a restore, and the seconds until all restored pods ran again."""

    added: int
    changed: int
    removed: int
    pods: int
    seconds: float


@dataclass(frozen=True)
class Listed:
    """The name of a snapshot, its time, the cluster's Kubernetes version, and the file's size in bytes."""

    name: str
    time: str
    revision: str
    kubernetes: str
    size: int


class Snapshots:
    """The snapshots of the cluster in a directory."""

    def __init__(self, data: Path) -> None:
        self._cluster = Cluster(data)
        self._folder = self._cluster.data / "snapshots"

    def file(self, name: str) -> Path:
        """Return the path of a snapshot's file, which need not exist.

        Raises:
            UserError: the name is not valid for a snapshot.
        """
        if not _NAME.fullmatch(name):
            raise UserError(f"{name!r} cannot be a snapshot's name: letters, digits, '-', '_' and '.'", 2)
        return self._folder / f"{name}{_SUFFIX}"

    def save(self, name: str, at: str = "", *, force: bool = False) -> int:
        """Save the cluster's current state, or its state ``at`` a past moment. Return the number of objects.

        Raises:
            UserError: a snapshot of that name exists, or the file cannot be written.
            ApiError: there is no such moment.
        """
        file = self.file(name)
        if file.exists() and not force:
            raise UserError(
                f"snapshot {name} already exists: choose another name, or replace it with --force"
            )
        body = asyncio.run(self._read(f"/at/{at}{_PATH}" if at else _PATH))
        pools = json.dumps([json.loads(one.text()) for one in Pools(self._cluster.data).read().values()])
        body = body.replace(_ITEMS, b'"pools":%b,%b' % (pools.encode(), _ITEMS), 1)
        try:
            file.parent.mkdir(exist_ok=True)
            replace(file, gzip.compress(body, 1))
        except OSError as error:
            raise UserError(f"cannot write {file}: {error.strerror or error}") from error
        return len(_saved(body).items)

    async def _read(self, path: str) -> bytes:
        async with self._cluster.client("dralab") as client:
            response = await client.raw("GET", path)
        if response.status_code >= 400:
            raise from_response(response.status_code, response.content)
        return response.content

    def list(self) -> list[Listed]:
        """Return the snapshots, oldest first."""
        found = []
        for file in sorted(self._folder.glob(f"*{_SUFFIX}")):
            about = header(file)
            if about is not None:
                name = file.name.removesuffix(_SUFFIX)
                size = file.stat().st_size
                found.append(Listed(name, about.time, about.revision, about.kubernetes, size))
        return sorted(found, key=lambda one: (one.time, one.name))

    def delete(self, name: str) -> None:
        """Delete a snapshot.

        Raises:
            UserError: there is no such snapshot.
        """
        try:
            self.file(name).unlink()
        except FileNotFoundError:
            raise UserError(self._unknown_message(name)) from None

    def restore(self, name: str, timeout: float) -> Restored:
        """Restore the running cluster to a snapshot, and wait until the pods run that ran in the snapshot.

        Raises:
            UserError: there is no such snapshot, the cluster has other nodes, or pods do not run again.
            ApiError: the API server refuses.
        """
        file = self.file(name)
        if not file.exists():
            raise UserError(self._unknown_message(name))
        began = time.monotonic()
        body = content(file)
        return asyncio.run(self._restore(name, body, began, timeout))

    def _unknown_message(self, name: str) -> str:
        names = ", ".join(one.name for one in self.list())
        return f"there is no snapshot {name} in {self._folder}{f'; there are {names}' if names else ''}"

    async def _restore(self, name: str, body: bytes, began: float, timeout: float) -> Restored:
        items = _saved(body).items
        async with self._cluster.client("dralab") as client:
            await self._check_nodes(client, name, items)
            done = await put(client, body)
            begun = {
                one["key"] for one in done["begun"] if (one["group"], one["resource"]) == ("", PODS.plural)
            }
            await _await_pods(client, _as_then(items, begun), began + timeout)
        return Restored(done["added"], done["changed"], done["removed"], len(begun), time.monotonic() - began)

    async def _check_nodes(self, client: Client, name: str, items: Sequence[msgspec.Raw]) -> None:
        """Raise an error if the cluster has other nodes than the snapshot: a restore cannot add or remove machines."""
        heads = (_kind(item) for item in items)
        then = {head.metadata.name for head in heads if head.kind == NODES.kind and head.api_version == "v1"}
        agents = {node for one in Pools(self._cluster.data).read().values() for node in one.nodes}
        response = await client.raw("GET", NODES.path())
        now = agents | {node["metadata"]["name"] for node in response.json().get("items") or ()}
        hint = (
            f"or start a cluster from it: dralab up --from {shlex.quote(str(self.file(name)))} --data ANOTHER"
        )
        if come := sorted(agents - then):
            raise UserError(
                f"the snapshot has no node {', '.join(come)}: `dralab node remove {' '.join(come)}` first, {hint}"
            )
        if gone := sorted(then - now):
            raise UserError(f"this cluster has no node {', '.join(gone)}: add it first, {hint}")


async def put(client: Client, body: bytes) -> Mapping[str, Any]:
    """Have the API server restore all objects of a snapshot. Return its report.

    Raises:
        ApiError: the API server rejects the snapshot.
    """
    response = await client.raw("PUT", _PATH, content=body)
    if response.status_code >= 400:
        raise from_response(response.status_code, response.content)
    found: Mapping[str, Any] = response.json()
    return found


def content(file: Path) -> bytes:
    """Return the content of a snapshot's file for the API server.

    Raises:
        UserError: the file cannot be read, or is not a snapshot.
    """
    try:
        with gzip.open(file) as packed:
            body = read_all(cast("IO[bytes]", packed), _MOST)
        _saved(body)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UserError(f"cannot read the snapshot {file}: {error}") from error
    return body


def header(file: Path) -> _About | None:
    """Return the header of the snapshot in a file, or None if the file has none."""
    try:
        with gzip.open(file) as packed:
            start = packed.read(_HEAD)
    except (OSError, EOFError, zlib.error):
        return None
    found = re.search(rb'"snapshot":(\{[^{}]*\})', start.partition(_ITEMS)[0])
    if found is None:
        return None
    try:
        return msgspec.json.decode(found[1], type=_About)
    except msgspec.DecodeError:
        return None


def find(source: str, folders: Sequence[Path]) -> Path | None:
    """Return the file of a snapshot named by ``up --from``, or None if it names none.

    The text is a path, or the name of a snapshot in one of the clusters' directories. The first directory
    with that name is used.
    """
    path = Path(source)
    if not path.exists() and _NAME.fullmatch(source):
        files = (Snapshots(folder).file(source) for folder in folders)
        path = next((file for file in files if file.exists()), path)
    return path if path.is_file() and header(path) is not None else None


def pools_of(file: Path) -> list[Pool]:
    """Return the pools of nodes of a snapshot's cluster.

    Raises:
        UserError: it cannot be read.
    """
    return [pool(given, str(file)) for given in _saved(content(file)).pools]


def _as_then(items: Sequence[msgspec.Raw], begun: set[str]) -> dict[str, tuple[str, bool]]:
    """Return, for each pod that starts again, its phase in the snapshot and whether it was ready, by key."""
    found = {}
    for raw in items if begun else ():
        if _kind(raw).kind != PODS.kind:
            continue
        pod = _pod(raw)
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if key in begun:
            ready = any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)
            found[key] = (pod.status.phase, ready)
    return found


async def _await_pods(client: Client, wanted: Mapping[str, tuple[str, bool]], deadline: float) -> None:
    """Wait until the pods have made the same progress as in the snapshot."""
    while True:
        late = await _late(client, wanted) if wanted else []
        if not late:
            return
        if time.monotonic() > deadline:
            raise UserError(
                f"the snapshot is restored, but these pods do not run again yet: {', '.join(late)}"
            )
        await asyncio.sleep(_POLL)


async def _late(client: Client, wanted: Mapping[str, tuple[str, bool]]) -> list[str]:
    listed = (await client.raw("GET", PODS.path())).json()["items"]
    now = {}
    for one in listed:
        meta, status = one["metadata"], one.get("status") or {}
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())
        now[f"{meta['namespace']}/{meta['name']}"] = (status.get("phase", ""), ready)
    return [key for key, state in wanted.items() if not _has_caught_up(now.get(key), state)]


def _has_caught_up(now: tuple[str, bool] | None, then: tuple[str, bool]) -> bool:
    """True if a pod has made the same progress as in the snapshot, or has been deleted."""
    if now is None or now[0] in _OVER:
        return True
    return now == then or then[0] == "Pending" or (now[0] == then[0] and now[1])
