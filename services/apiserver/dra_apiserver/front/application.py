"""Build the FastAPI application: docs, console, health, the store's state, insight; the Kubernetes API is
mounted in it.

Its import takes longer than the whole start of the server, and Kubernetes clients do not need it. So the
server passes their requests directly to the dispatcher, and builds the application when a path of
:data:`PATHS` is first requested.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any

from dra_shared.features import FeatureGates
from fastapi import FastAPI, Query
from fastapi.responses import HTMLResponse, PlainTextResponse
from pydantic import BaseModel

from dra_apiserver.api import Api
from dra_apiserver.front import claimbench, console, insight, packed, workbench
from dra_apiserver.front.devices import stored_classes, stored_devices
from dra_apiserver.front.paths import MOUNTED
from dra_apiserver.front.scheduler import scheduler
from dra_apiserver.front.schemas import add_schemas
from dra_apiserver.health import Health
from dra_apiserver.manifests import Around, admit_all

_PAGE = ["GET", "HEAD"]
_UNHEALTHY: dict[int | str, dict[str, Any]] = {500: {"description": "a check failed"}}
_Excluded = Annotated[tuple[str, ...], Query(description="checks to leave out")]
_DOCS = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>dralab</title>
<link rel="stylesheet" href="/assets/swagger-ui.css"></head>
<body><div id="swagger-ui"></div>
<script src="/assets/swagger-ui-bundle.js"></script>
<script src="/assets/swagger-ui-standalone-preset.js"></script>
<script>
SwaggerUIBundle({
  dom_id: "#swagger-ui", layout: "StandaloneLayout", validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
  urls: [{url: "/openapi.json", name: "dralab"}, {url: "/openapi/v2", name: "Kubernetes"}],
});
</script></body></html>
"""
_REDOC = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Kubernetes API</title></head>
<body><redoc spec-url="/openapi/v2"></redoc><script src="/assets/redoc.standalone.js"></script></body></html>
"""


class StoreReport(BaseModel):
    """The store: revisions, writes, open watches, and the number of objects of each resource."""

    revision: int
    compacted: int
    commits: int
    writes: int
    watches: int
    objects: dict[str, int]


def build(api: Api, health: Health, kubernetes: Any) -> FastAPI:
    """Build the application, with the ASGI application ``kubernetes`` mounted below its own paths."""
    app = FastAPI(
        title="dralab", docs_url=None, redoc_url=None, summary="What a lab has besides the Kubernetes API."
    )
    add_schemas(app)
    _add_pages(app)
    _add_health(app, health)
    _add_store(app, api)
    around = Around(api.lookup, api.listing, disabled_plugins=api.config.disabled_plugins)

    async def complete(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
        # Checking thousands of pods would block the event loop for too long.
        admit = functools.partial(admit_all, api.registry, objects, around, api.config.features)
        return await api.offload.run(admit)

    app.include_router(insight.router(scheduler(api.config), complete))
    devices = stored_devices(api)

    async def features() -> FeatureGates:
        return api.config.features

    app.include_router(workbench.router(devices, features))
    app.include_router(claimbench.router(devices, stored_classes(api), features))
    app.include_router(console.router(console.Settings()))
    app.include_router(packed.router())

    async def serve_mounted(scope: Any, receive: Any, send: Any) -> None:
        await kubernetes({**scope, MOUNTED: True}, receive, send)

    app.mount("/", serve_mounted, name="kubernetes")
    return app


def _add_pages(app: FastAPI) -> None:
    @app.api_route("/docs", methods=_PAGE, include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(_DOCS)

    @app.api_route("/redoc", methods=_PAGE, include_in_schema=False)
    async def redoc() -> HTMLResponse:
        return HTMLResponse(_REDOC)


def _add_health(app: FastAPI, health: Health) -> None:
    def add(endpoint: str, summary: str) -> None:
        @app.get(f"/{endpoint}", summary=summary, tags=["health"], responses=_UNHEALTHY)
        async def answer(verbose: str | None = None, exclude: _Excluded = ()) -> PlainTextResponse:
            query = {} if verbose is None else {"verbose": verbose}
            code, text = health.answer(endpoint, query, list(exclude), "")
            return PlainTextResponse(text, status_code=code)

    add("livez", "Whether the server is alive.")
    add("readyz", "Whether it takes requests.")
    add("healthz", "Whether it is healthy.")


def _add_store(app: FastAPI, api: Api) -> None:
    @app.get("/debug/store", tags=["debug"])
    async def store() -> StoreReport:
        """Return the store's revisions, and the numbers of writes, watches and objects."""
        kept = api.store
        return StoreReport(
            revision=kept.revision,
            compacted=kept.compacted_revision,
            commits=kept.commits,
            writes=kept.committed_writes,
            watches=len(api.streams),
            objects={f"{group}/{plural}".lstrip("/"): n for (group, plural), n in kept.resources().items()},
        )
