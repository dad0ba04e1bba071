"""Serve the console's page and modules under ``/console/`` from the package's own files.

The page may only load scripts and data from its own server (Content-Security-Policy). So text from the
cluster that gets into the page can neither run nor be sent elsewhere.
"""

import base64
import gzip
import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

from fastapi import APIRouter, Request, Response
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
_MODULE = re.compile(r"^import .*\bfrom \"(.+)\";$", re.MULTILINE)
# Modules that are only loaded when they are first needed.
_LATER = re.compile(r"\bimport\(\"(.+?)\"\)")
_MAPPED = re.compile(r"\"(\S+)\": \"(/\S+)\"")
_READ = ["GET", "HEAD"]


class Settings(BaseModel):
    """Facts about the server for the page: whether it is read-only, the cluster's name, and whether it has
    lessons.
    """

    read_only: bool = False
    cluster: str = ""
    learn: bool = False


@dataclass(frozen=True)
class _File:
    """A file of the package, plain and compressed."""

    name: str
    content: bytes
    packed: bytes = field(init=False)
    tag: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "packed", gzip.compress(self.content, mtime=0))
        object.__setattr__(self, "tag", f'"{hashlib.sha256(self.content).hexdigest()[:16]}"')

    @property
    def media_type(self) -> str:
        """The Content-Type of the file."""
        return _TYPES[Path(self.name).suffix]


def router(settings: Settings) -> APIRouter:
    """Create the console's endpoints."""
    made = APIRouter(include_in_schema=False)
    files = {
        file.name: _File(file.name, file.read_bytes())
        for file in sorted(_FOLDER.iterdir())
        if file.suffix in _TYPES
    }
    page = _with_preloads(files)
    files["index.html"] = page
    headers = {
        "Content-Security-Policy": policy(page.content.decode()),
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Vary": "Accept-Encoding",
    }

    @made.api_route("/console", methods=_READ)
    async def without_slash() -> RedirectResponse:
        return RedirectResponse("/console/", status_code=308)

    @made.get("/console/settings.json")
    async def read_settings() -> Settings:
        return settings

    @made.api_route("/console/{name:path}", methods=_READ)
    async def file(name: str, request: Request) -> Response:
        found = files.get(name or "index.html")
        if found is None:
            return PlainTextResponse("404 page not found\n", status_code=404)
        sent = headers | {"ETag": found.tag}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=sent)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(
                found.packed, media_type=found.media_type, headers=sent | {"Content-Encoding": "gzip"}
            )
        return Response(found.content, media_type=found.media_type, headers=sent)

    return made


def _with_preloads(files: dict[str, _File]) -> _File:
    """Add preload links for every module of the initial page.

    Otherwise the browser would only discover a module from the one that imports it, a round trip later.
    """
    page = files["index.html"].content.decode()
    sources = {name: one.content.decode() for name, one in files.items() if name.endswith(".js")}
    later = {name for source in sources.values() for name in _LATER.findall(source)}
    found = {path: None for name, path in _MAPPED.findall(page) if name not in later}
    todo = ["main.js"]
    while todo:
        name = todo.pop()
        if (path := f"/console/{name}") not in found:
            found[path] = None
            todo += [
                other.removeprefix("./") for other in _MODULE.findall(sources[name]) if other.startswith("./")
            ]
    links = "".join(f'<link rel="modulepreload" href="{path}">\n' for path in found)
    return _File("index.html", page.replace("</head>", f"{links}</head>").encode())


def policy(page: str) -> str:
    """Return the page's Content-Security-Policy. It permits the inline import map by its hash."""
    digests = [hashlib.sha256(text.encode()).digest() for text in _INLINE.findall(page)]
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src 'self' {hashes}; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
