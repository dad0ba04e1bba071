"""A page in a real Chromium that reaches nothing but this machine, driven over its DevTools protocol."""

import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx_ws
import orjson

CHROMIUM = next(
    (path for name in ("chromium-headless-shell", "chromium") if (path := shutil.which(name))), None
)
_WAIT = 30.0


class Browser:
    """A page of the browser. Messages of the protocol: ``chromedevtools.github.io/devtools-protocol``."""

    def __init__(self, socket: httpx_ws.WebSocketSession) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        #: The URLs that pages asked for, and the errors that scripts ended with.
        self.requests: list[str] = []
        self.errors: list[str] = []
        for domain in ("Network", "Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def visit(self, url: str) -> None:
        """Load a page."""
        loaded = f"load {next(self._numbers)}"
        self._call("Page.addScriptToEvaluateOnNewDocument", source=f"window.visit = {loaded!r}")
        self._call("Page.navigate", url=url)
        self.until(f"window.visit === {loaded!r} && document.readyState === 'complete'")

    def until(self, expression: str) -> Any:
        """The value of a JavaScript expression, as soon as that is true.

        Raises:
            AssertionError: it does not become true.
        """
        script = (
            f"new Promise((done, fail) => {{ const end = Date.now() + {_WAIT * 1000};"
            f" const look = () => {{ const found = {expression};"
            " if (found) done(found); else if (Date.now() > end) fail('not true'); else setTimeout(look, 20); };"
            " look(); })"
        )
        while True:
            found = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
            # A page that is left takes the promise with it.
            if "exceptionDetails" in found:
                raise AssertionError(f"{expression}: {found['exceptionDetails']}")
            if "result" in found:
                return found["result"].get("value")

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._socket.send_text(orjson.dumps({"id": number, "method": method, "params": params}).decode())
        while True:
            message = orjson.loads(self._socket.receive_text(timeout=_WAIT + 10))
            if message.get("id") == number:
                return message.get("result") or {}
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params") or {}
        if message["method"] == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif message["method"] == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif message["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser with an empty profile in this folder."""
    assert CHROMIUM is not None
    process = subprocess.Popen(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={profile}",
            "--remote-debugging-port=0",
            # Other machines do not exist.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "about:blank",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "DevTools listening" in line)
        address = re.sub(r".*ws://([^/]*)/.*\n", r"http://\1", line)
        pages = httpx.get(f"{address}/json/list").json()
        target = next(page["id"] for page in pages if page["type"] == "page")
        socket: httpx_ws.WebSocketSession
        page = f"{address}/devtools/page/{target}"
        with (
            httpx.Client() as client,
            httpx_ws.connect_ws(page, client, max_message_size_bytes=1 << 24) as socket,
        ):
            yield Browser(socket)
    finally:
        # It has processes of its own, in its group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
