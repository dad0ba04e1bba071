"""Serve the scripts and styles of ``/docs`` and ``/redoc`` under ``/assets/``, compressed by ``make assets``."""

import gzip
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

_FOLDER = Path(__file__).with_name("assets")
_SCRIPT = "text/javascript; charset=utf-8"
_TYPES = {".js": _SCRIPT, ".mjs": _SCRIPT, ".css": "text/css; charset=utf-8"}


def router() -> APIRouter:
    """Create the endpoint."""
    made = APIRouter(include_in_schema=False)

    @made.api_route("/assets/{name}", methods=["GET", "HEAD"])
    async def asset(name: str, request: Request) -> Response:
        # Compare names instead of building a path, because the requested name may be too long for a file.
        file = next((one for one in _FOLDER.glob("*.gz") if one.stem == name), None)
        media = None if file is None else _TYPES.get(Path(file.stem).suffix)
        if file is None or media is None:
            return PlainTextResponse("404 page not found\n", status_code=404)
        packed = file.read_bytes()
        headers = {"Vary": "Accept-Encoding", "Cache-Control": "max-age=3600"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, media_type=media, headers={**headers, "Content-Encoding": "gzip"})
        return Response(gzip.decompress(packed), media_type=media, headers=headers)

    return made
