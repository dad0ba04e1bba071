"""Serves the console's page and modules under ``/console/``: files of the package, nothing from elsewhere.

The page may load scripts and data of its own server alone (Content-Security-Policy), so that a text from the cluster
that gets into it can neither run nor be sent away.
"""

import base64
import hashlib
import re
from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse, RedirectResponse
from pydantic import BaseModel

_FOLDER = Path(__file__).with_name("web")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_INLINE = re.compile(r"<script type=\"importmap\">(.*?)</script>", re.DOTALL)
_READ = ["GET", "HEAD"]


class Settings(BaseModel):
    """What the page learns of the server: whether it refuses all writes, the cluster's name, and if it has lessons."""

    read_only: bool = False
    cluster: str = ""
    learn: bool = False


def router(settings: Settings) -> APIRouter:
    """The console's paths."""
    made = APIRouter(include_in_schema=False)
    files = {file.name: file.read_bytes() for file in sorted(_FOLDER.iterdir()) if file.suffix in _TYPES}
    headers = {
        "Content-Security-Policy": policy(files["index.html"].decode()),
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }

    @made.api_route("/console", methods=_READ)
    async def without_slash() -> RedirectResponse:
        return RedirectResponse("/console/", status_code=308)

    @made.get("/console/settings.json")
    async def shown() -> Settings:
        return settings

    @made.api_route("/console/{name:path}", methods=_READ)
    async def file(name: str) -> Response:
        found = files.get(name or "index.html")
        if found is None:
            return PlainTextResponse("404 page not found\n", status_code=404)
        return Response(found, media_type=_TYPES[Path(name or "index.html").suffix], headers=headers)

    return made


def policy(page: str) -> str:
    """The page's Content-Security-Policy. An import map has to be inline: its hash permits this one."""
    digests = [hashlib.sha256(text.encode()).digest() for text in _INLINE.findall(page)]
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src 'self' {hashes}; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
