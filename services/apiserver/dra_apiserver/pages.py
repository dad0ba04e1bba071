"""FastAPI's part: /docs over the served schemas, and a look inside the store for people."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.openapi.docs import get_redoc_html, get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse

from dra_apiserver.api import Api
from dra_apiserver.openapi import OpenApi


def build(api: Api) -> FastAPI:
    """The application; made when one of its pages is first asked for, as its import takes a while."""
    app = FastAPI(title="dralab", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/openapi.json", include_in_schema=False)
    async def document() -> JSONResponse:
        return JSONResponse(orjson.loads(OpenApi(api.registry).v2()))

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(openapi_url="/openapi.json", title="dralab API")

    @app.get("/redoc", include_in_schema=False)
    async def redoc() -> HTMLResponse:
        return get_redoc_html(openapi_url="/openapi.json", title="dralab API")

    @app.get("/debug/store", include_in_schema=False)
    async def store() -> dict[str, Any]:
        kept = api.store
        return {
            "revision": kept.revision,
            "compacted": kept.compacted,
            "commits": kept.commits,
            "writes": kept.committed_writes,
            "watches": len(api.streams),
            "objects": {
                f"{group}/{plural}".lstrip("/"): n for (group, plural), n in kept.resources().items()
            },
        }

    return app
