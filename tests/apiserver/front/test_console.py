"""Test the console's files, and which files its page may load."""

import base64
import gzip
import hashlib
import re
from pathlib import Path

import httpx
from dra_apiserver.front import console
from dra_apiserver.front.console import policy

_WEB = Path(console.__file__).with_name("web")
_IMPORT = re.compile(r"^import .* from \"(.+)\";$", re.MULTILINE)
# These files are loaded when they are first needed.
_LATER = re.compile(r"\bimport\(\"(.+?)\"\)")


async def test_the_page_and_every_module_that_it_imports_are_served(client: httpx.AsyncClient) -> None:
    redirect = await client.get("/console")
    assert (redirect.status_code, redirect.headers["location"]) == (308, "/console/")
    page = (await client.get("/console/")).text
    assert "://" not in page
    preloaded = re.findall(r"<link rel=\"modulepreload\" href=\"(\S+)\">", page)
    mapped = dict(re.findall(r"\"(\S+)\": \"(/assets/\S+)\"", page))
    seen: set[str] = set()
    todo = {"/console/main.js"}
    while todo - seen:
        path = (todo - seen).pop()
        seen.add(path)
        assert (path in preloaded) != ("xterm" in path or "addon" in path), path
        answer = await client.get(path)
        assert (answer.status_code, answer.headers["content-type"][:15]) == (200, "text/javascript"), path
        if path.startswith("/assets/"):
            continue
        for name in _IMPORT.findall(answer.text) + _LATER.findall(answer.text):
            todo.add(f"/console/{name[2:]}" if name.startswith("./") else mapped[name])
    ours = {path.rpartition("/")[2] for path in seen if path.startswith("/console/")}
    assert ours == {file.name for file in _WEB.glob("*.js")}
    assert set(mapped.values()) <= seen | {"/assets/signals-core.mjs", "/assets/hooks.mjs"}


async def test_console_files_that_the_browser_has_cached_are_not_sent_again(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/console/fleet.js", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.content == (_WEB / "fleet.js").read_bytes()
    plain = await client.get("/console/fleet.js", headers={"Accept-Encoding": "identity"})
    assert ("content-encoding" in plain.headers, plain.content) == (False, answer.content)
    again = await client.get("/console/fleet.js", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    older = await client.get("/console/fleet.js", headers={"If-None-Match": '"other"'})
    assert older.status_code == 200


async def test_no_path_outside_the_console_files_is_served(client: httpx.AsyncClient) -> None:
    for path in ("nothing.js", "../console.py", "..%2fconsole.py", "web/main.js"):
        assert (await client.get(f"/console/{path}")).status_code == 404
    assert (await client.get("/console/settings.json")).json() == {
        "read_only": False,
        "cluster": "",
        "learn": False,
    }


def test_the_policy_permits_the_import_map_and_no_other_inline_script() -> None:
    text = '{"imports": {}}'
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    found = policy(f'<script type="importmap">{text}</script><script>alert(1)</script>')
    assert f"script-src 'self' 'sha256-{digest}';" in found
    assert found.count("sha256-") == 1


async def test_the_console_files_stay_below_the_size_limit(client: httpx.AsyncClient) -> None:
    page = (await client.get("/console/")).text
    packed = [await client.get(path) for path in re.findall(r"\"(/assets/\S+)\"", page)]
    size = sum(int(answer.headers["content-length"]) for answer in packed)
    # The browser asks for compressed files, which the server has ready.
    size += sum(len(gzip.compress(file.read_bytes())) for file in _WEB.iterdir())
    assert size < 300 << 10
