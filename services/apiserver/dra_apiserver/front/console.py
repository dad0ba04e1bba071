"""Serves the console's page and modules under ``/console/``: files of the package, nothing from elsewhere.

The page may load scripts and data of its own server alone (Content-Security-Policy), so that a text from the cluster
that gets into it can neither run nor be sent away.
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
# What is loaded when it is first needed.
_LATER = re.compile(r"\bimport\(\"(.+?)\"\)")
_MAPPED = re.compile(r"\"(\S+)\": \"(/\S+)\"")
_READ = ["GET", "HEAD"]


class Settings(BaseModel):
    """What the page learns of the server: whether it refuses all writes, the cluster's name, and if it has lessons."""

    read_only: bool = False
    cluster: str = ""
    learn: bool = False


@dataclass(frozen=True)
class _File:
    """A file of the package, as it is and packed."""

    name: str
    content: bytes
    packed: bytes = field(init=False)
    tag: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "packed", gzip.compress(self.content, mtime=0))
        object.__setattr__(self, "tag", f'"{hashlib.sha256(self.content).hexdigest()[:16]}"')

    @property
    def media(self) -> str:
        """Its Content-Type."""
        return _TYPES[Path(self.name).suffix]


def router(settings: Settings) -> APIRouter:
    """The console's paths."""
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
    async def shown() -> Settings:
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
            return Response(found.packed, media_type=found.media, headers=sent | {"Content-Encoding": "gzip"})
        return Response(found.content, media_type=found.media, headers=sent)

    return made


def _with_preloads(files: dict[str, _File]) -> _File:
    """The page, which names every module that it begins with.

    The browser would learn of a module only from the one that imports it, and ask for it a round trip later.
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
    """The page's Content-Security-Policy. An import map has to be inline: its hash permits this one."""
    digests = [hashlib.sha256(text.encode()).digest() for text in _INLINE.findall(page)]
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src 'self' {hashes}; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
