"""Web pages that access a cluster on the same machine, in a real Chromium."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest
from dra_kube.cluster import Cluster
from dra_shared.api.resources import PODS

from tests.integration.lab import Lab, Setup, on

_PLAIN = Setup("plain", ("none",))
_CHROMIUM = next(
    (path for name in ("chromium-headless-shell", "chromium") if (path := shutil.which(name))), None
)
_PODS = "/api/v1/namespaces/default/pods"
# Requests that a page can send without a preflight: a body without a type, a form, sockets, and plain reads.
_PAGE = """<!doctype html><script>
const send = (url, text) => fetch(url, {method: 'POST', mode: 'no-cors', body: new TextEncoder().encode(text)})
  .then(() => 'sent', () => 'failed');
const socket = (url, protocol) => new Promise(done => {
  const made = new WebSocket(url, protocol);
  made.onopen = () => done('open');
  made.onerror = () => done('refused');
});
const read = url => fetch(url).then(got => got.text(), () => 'unreadable');
const form = (url, text) => new Promise(done => {
  const [name, value] = [text.slice(0, -2) + ',"x":"', '"}'];
  document.body.innerHTML = '<iframe name=there></iframe><form method=post target=there enctype=text/plain>'
    + '<input></form>';
  const [made] = document.forms;
  Object.assign(made, {action: url});
  Object.assign(made[0], {name, value});
  document.querySelector('iframe').onload = () => done('sent');
  made.submit();
});
onload = async () => {
  const results = [];
  for (const [kind, ...rest] of PLAN) results.push(await {send, socket, read, form}[kind](...rest));
  await fetch('RESULTS', {method: 'POST', mode: 'no-cors', body: JSON.stringify(results)});
};
</script><body></body>"""


class _Site:
    """A web server that serves the page, receives its results, and records all other requests."""

    def __init__(self) -> None:
        self.plan: list[list[str]] = []
        self.results: list[str] | None = None
        self.came = threading.Event()
        self.seen: list[tuple[str, str, str | None]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.seen.append(("GET", self.path, self.headers.get("Upgrade")))
                self._answer(site.page())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/results":
                    site.results = orjson.loads(body)
                    site.came.set()
                else:
                    site.seen.append(("POST", self.path, self.headers.get("Content-Type")))
                self._answer(b"")

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port

    def page(self) -> bytes:
        """Return the page with its plan."""
        results = f"http://127.0.0.1:{self.port}/results"
        return _PAGE.replace("PLAN", orjson.dumps(self.plan).decode()).replace("RESULTS", results).encode()

    @classmethod
    @contextmanager
    def open(cls) -> "Iterator[_Site]":
        site = cls()
        thread = threading.Thread(target=site._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield site
        finally:
            site._server.shutdown()
            thread.join()
            site._server.server_close()


@contextmanager
def _browser(profile: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    assert _CHROMIUM is not None
    with (profile / "output").open("wb") as output:
        process = subprocess.Popen(
            [
                _CHROMIUM,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                f"--user-data-dir={profile}",
                "--host-resolver-rules=MAP *.example 127.0.0.1",
                *arguments,
            ],
            stdout=output,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            # Chromium starts other processes in its process group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _visit(profile: Path, site: _Site, url: str = "") -> list[str]:
    """Return the results of the site's plan.

    Without a URL, the page has a host name that is neither localhost nor an address.
    """
    with _browser(profile, url or f"http://page.example:{site.port}/"):
        assert site.came.wait(60), "the page did not come to its end"
    assert site.results is not None
    return site.results


def _dump_dom(profile: Path, url: str, *arguments: str) -> str:
    with _browser(profile, *arguments, "--dump-dom", url) as process:
        process.wait(60)
    return (profile / "output").read_text()


@pytest.fixture(autouse=True)
def _needs_chromium() -> None:
    if _CHROMIUM is None:
        assert "CI" not in os.environ, "CI has no Chromium"
        pytest.skip("needs Chromium: apt-get install chromium-headless-shell")


def _pod(name: str) -> bytes:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "3600"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return orjson.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec, "status": {}}
    )


def _socket(url: str) -> list[str]:
    return ["socket", url.replace("http", "ws", 1), "v5.channel.k8s.io"]


@on(_PLAIN)
async def test_a_page_of_another_origin_cannot_write_or_run_commands(
    house: Lab, cluster: Path, tmp_path: Path
) -> None:
    record = Cluster(cluster).record()
    api, agent = record.server + _PODS, record.services["node-agent"].url
    response = await house.client.raw("POST", _PODS, content=_pod("target"))
    assert response.status_code == 201
    await house.wait_for_running("default", "target")
    attack = _pod("made-by-a-page").decode()
    command = "command=sh&stdin=true&stdout=true"
    with _Site.open() as site, _Site.open() as other:
        site.plan = [
            ["send", f"http://127.0.0.1:{other.port}/send", attack],
            _socket(f"http://127.0.0.1:{other.port}/socket"),
            ["send", api, attack],
            ["form", api, attack],
            ["read", api],
            _socket(f"{api}/target/exec?{command}"),
            _socket(f"{api}/target/attach?stdout=true"),
            _socket(f"{agent}/exec/default/target/main?command=sh&input=1&output=1"),
        ]
        results = await asyncio.to_thread(_visit, tmp_path, site)
    # The page's requests leave the browser in this form.
    assert other.seen == [("POST", "/send", None), ("GET", "/socket", "websocket")]
    assert results[2:] == ["sent", "sent", "unreadable", "refused", "refused", "refused"]
    assert set(await house.pods("default")) == {"target"}
    await house.client.delete(PODS, "target", "default")
    await house.wait_until_gone("default", "target")


@on(_PLAIN)
async def test_a_page_with_a_rebound_dns_name_is_rejected(house: Lab, tmp_path: Path) -> None:
    path = f"{house.client.base_url.rpartition(':')[2]}/api/v1/namespaces"
    rebound, own = [
        await asyncio.to_thread(_dump_dom, tmp_path, f"http://{host}:{path}")
        for host in ("rebound.example", "localhost")
    ]
    assert "kube-system" in own
    assert "kube-system" not in rebound
    assert "is not a name of this server; --allowed-hosts adds names" in rebound


@on(_PLAIN)
async def test_the_api_documentation_loads_nothing_from_other_servers(house: Lab, tmp_path: Path) -> None:
    # No name can be resolved. Scripts get some time of the browser's own clock to build the page.
    alone = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    arguments = (f"{house.client.base_url}/docs", alone, "--virtual-time-budget=20000")
    page = await asyncio.to_thread(_dump_dom, tmp_path, *arguments)
    for path in ("/healthz", "/debug/store", "/insight/free", "/insight/plan/fit"):
        assert f'data-path="{path}"' in page


@on(_PLAIN)
async def test_a_page_behind_kubectl_proxy_has_the_rights_of_its_user(
    house: Lab, cluster: Path, tmp_path: Path
) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on the PATH")
    with _Site.open() as site:
        site.plan = [["send", _PODS, _pod("made-by-ours").decode()], ["read", f"{_PODS}/made-by-ours"]]
        (tmp_path / "page.html").write_bytes(site.page())
        proxy = await asyncio.create_subprocess_exec(
            "kubectl",
            "proxy",
            "--port=0",
            f"--www={tmp_path}",
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "KUBECONFIG": str(Cluster(cluster).kubeconfig)},
        )
        try:
            assert proxy.stdout is not None
            address = (await proxy.stdout.readline()).decode().split()[-1]
            results = await asyncio.to_thread(_visit, tmp_path, site, f"http://{address}/static/page.html")
        finally:
            proxy.terminate()
            await proxy.communicate()
    assert results[0] == "sent"
    assert orjson.loads(results[1])["metadata"]["name"] == "made-by-ours"
    await house.client.delete(PODS, "made-by-ours", "default")
