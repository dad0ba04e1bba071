"""The console's own server: its pages, a proxy to the cluster's API, and our scheduler's view of the cluster."""

import asyncio
import secrets
import socket
import sys
import time
import webbrowser
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlencode

import orjson
import uvicorn
from dra_apiserver.front import claimbench, console, insight, packed, workbench
from dra_apiserver.front.schemas import add_schemas
from dra_kube.access import ChosenCluster
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.questions.catalog import QUESTIONS
from dra_scheduler.plan.routes import ask
from dra_shared.api.resource import DeviceClass
from dra_shared.api.resources import DEVICE_CLASSES, RESOURCE_SLICES
from dra_shared.cel.workbench import Candidate, candidates
from dra_shared.client.rest import Client
from dra_shared.errors import UserError
from dra_shared.features import FeatureGates
from dra_shared.httpserver import BoundedConnection
from dra_shared.mediatypes import JSON
from dra_worlds.reading import all_admitted
from dra_worlds.snapshot import Snapshot
from fastapi import FastAPI, HTTPException

from dra_lab.console.doorkeeper import Doorkeeper
from dra_lab.console.proxy import router as proxy

# How long a snapshot of the cluster is reused, in seconds: users open several parts of one explanation.
_FRESH = 5.0
# The same for plans, which users ask right after a change. The parts of one question are requested at once.
_FRESH_FOR_PLANS = 0.5


class _View:
    """The cluster as our scheduler sees it. A question reads it again if the last snapshot is too old."""

    def __init__(self, cluster: ChosenCluster) -> None:
        self._cluster = cluster
        self._lock = asyncio.Lock()
        self._read_at = float("-inf")
        self._snapshot: Snapshot | None = None

    async def snapshot(self, fresh: float = _FRESH) -> Snapshot:
        async with self._lock:
            if self._snapshot is None or time.monotonic() - self._read_at > fresh:
                named = self._snapshot.uncertain if self._snapshot is not None else ()
                self._snapshot = await Snapshot.read(None, self._cluster)
                for problem in self._snapshot.uncertain:
                    if problem not in named:
                        print(f"dralab: uncertain: {problem}", file=sys.stderr)
                self._read_at = time.monotonic()
            return self._snapshot

    async def ask(
        self, path: str, params: Mapping[str, int], body: dict[str, Any] | None = None, media_type: str = JSON
    ) -> Any:
        """Answer a request like the health port of a scheduler does."""
        question, *rest = path.strip("/").split("/")
        snapshot = await self.snapshot(_FRESH_FOR_PLANS if question == "plan" else _FRESH)
        if question == "free":
            return orjson.loads(await snapshot.free("json"))
        try:
            if question == "explain":
                kind, *names = rest
                return snapshot.explain(kind, "/".join(names[:-1]), names[-1], params.get("nodes", 0))[0]
            if rest[0] not in QUESTIONS:
                raise HTTPException(404, f"there is no question {rest[0]!r}")
            planner, name = snapshot.planner(), self._cluster.server or "this cluster"
            answer = await asyncio.to_thread(ask, planner, rest[0], orjson.dumps(body), media_type, name)
            return orjson.loads(answer) if media_type == JSON else answer.decode()
        except UserError as error:
            raise HTTPException(404, str(error)) from error
        except ValueError as error:
            raise HTTPException(400, str(error)) from error

    async def complete(self, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
        snapshot = await self.snapshot(_FRESH_FOR_PLANS)
        return await asyncio.to_thread(all_admitted, objects, snapshot.objects)

    async def devices(self) -> list[Candidate]:
        objects: Objects = (await self.snapshot()).objects
        return candidates(objects.of(RESOURCE_SLICES).values())

    async def features(self) -> FeatureGates:
        return (await self.snapshot()).config.gates

    async def classes(self) -> dict[str, DeviceClass]:
        objects: Objects = (await self.snapshot()).objects
        return {one.metadata.name: one for one in objects.of(DEVICE_CLASSES).values()}


def pages(cluster: ChosenCluster, client: Client, settings: console.Settings) -> FastAPI:
    """Return the application with the console's pages and the endpoints that they use."""
    app = FastAPI(title="dralab console", docs_url=None, redoc_url=None)
    add_schemas(app)
    view = _View(cluster)
    app.include_router(console.router(settings))
    app.include_router(packed.router())
    app.include_router(insight.router(view.ask, view.complete))
    app.include_router(workbench.router(view.devices, view.features))
    app.include_router(claimbench.router(view.devices, view.classes, view.features))
    app.include_router(proxy(client, cluster.reader()))
    return app


async def serve(cluster: ChosenCluster, port: int, writes: bool, opens: bool, at: str = "") -> None:
    """Serve until Ctrl-C. Print the address, which contains the key, and open it in the browser at the moment ``at``.

    Raises:
        UserError: the port is taken, or the cluster cannot be reached with these options.
    """
    key = secrets.token_urlsafe(24)
    async with cluster.client("dralab-console", retries=0) as client:
        app = pages(cluster, client, console.Settings(read_only=not writes, cluster=client.base_url))
        query = urlencode({"key": key} | ({"at": at} if at else {}))
        note = f"{client.base_url}{'' if writes else ', read only'}; Ctrl-C ends it"
        await listen(Doorkeeper(app, key, writes), port, f"?{query}", note, opens)


async def listen(application: Doorkeeper, port: int, query: str, note: str, opens: bool) -> None:
    """Serve an application until Ctrl-C. Print the console's address, with ``query``, and a line about it.

    Raises:
        UserError: the port is taken.
    """
    with _listen(port) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/console/{query}"
        config = uvicorn.Config(
            application,
            # uvicorn's own protocol drops the body of a request that offers an upgrade.
            http=cast(Any, BoundedConnection),
            ws="wsproto",
            lifespan="off",
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        print(f"{url}\n{note}", flush=True)
        if opens:
            webbrowser.open(url)
        await uvicorn.Server(config).serve([listener])


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        # Listen now, because the browser may connect before the server accepts its first connection.
        listener.listen()
    except OSError as error:
        listener.close()
        raise UserError(
            f"port {port} is in use; choose another with --port (0 takes any free one)"
        ) from error
    return listener
