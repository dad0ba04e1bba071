"""Measure the console in Chromium: the time until the page or a change is shown, and the cost of frames and idle pages.

A separate API server has the nodes, their devices and some allocated claims; no other service runs. Each figure is
printed with its goal. Times are wall-clock times and longer on a busy machine. ``cpu`` figures are the CPU time of all
Chromium processes, except that those of a frame count the main thread alone. Without a GPU, Chromium draws in software.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from dra_shared.jsontypes import JsonObject
from playwright.sync_api import CDPSession, Page, ViewportSize, sync_playwright

_DRA = "/apis/resource.k8s.io/v1"
_CHROMIUM = ("chromium-headless-shell", "chromium")
_VIEW: ViewportSize = {"width": 1600, "height": 1000}
# The change whose display is timed: a device is tainted while the page is open.
_GATES = "DRADeviceTaints=true,DRADeviceTaintRules=true"
_SMALL = (2, 8)
_PAN_SECONDS = 3.0
_TRACED = [
    "devtools.timeline",
    "disabled-by-default-devtools.timeline",
    "devtools.timeline.frame",
    "benchmark",
]
# The main thread's tasks in a frame: script, style, layout, paint.
_FRAME = "ProxyMain::BeginMainFrame"
_GOALS: dict[str, tuple[str, float]] = {
    "small_shown_ms": ("<=", 1000),
    "shown_ms": ("<=", 3000),
    "change_ms": ("<=", 200),
    "frames_per_second": (">=", 60),
    "near_frames_per_second": (">=", 60),
    "frame_cpu_ms": ("<=", 1000 / 60),
    "near_frame_cpu_ms": ("<=", 1000 / 60),
    "memory_mib": ("<=", 150),
    "idle_server_percent": ("<=", 2),
    "payload_kib": ("<=", 300),
}
# Returns the ms from the start of the page until the picture with at least ``count`` boards was drawn.
_SHOWN = """count => new Promise(done => {
  const look = () => {
    const drawn = document.querySelector("canvas")?.picture?.drawn;
    const boards = (drawn?.places ?? []).reduce((sum, place) => sum + place.boards.length, 0);
    if (boards >= count) done(performance.now());
    else setTimeout(look, 5);
  };
  look();
})"""
# Taints a device, returns the ms until a frame shows it, and removes the taint.
_CHANGE = """async path => {
  const chips = () => [...document.querySelectorAll("button.chip")];
  const chip = () => chips().find(one => one.innerText.startsWith("tainted")).innerText;
  const before = chip();
  const deviceSelector = {driver: "gpu.example.com", pool: "node-0", device: "gpu-0"};
  const taint = {key: "k", effect: "NoSchedule"};
  const body = JSON.stringify({metadata: {generateName: "bench-"}, spec: {deviceSelector, taint}});
  const begin = performance.now();
  const answer = await fetch(path, {method: "POST", body, headers: {"Content-Type": "application/json"}});
  const {metadata} = await answer.json();
  const seen = different => new Promise(done => {
    const look = () => {
      if ((chip() !== before) !== different) return;
      changed.disconnect();
      // The frame that is drawn now has it.
      requestAnimationFrame(() => done());
    };
    const changed = new MutationObserver(look);
    changed.observe(document.body, {subtree: true, childList: true, characterData: true});
    look();
  });
  await seen(true);
  const took = performance.now() - begin;
  await fetch(`${path}/${metadata.name}`, {method: "DELETE"});
  await seen(false);
  return took;
}"""


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print one line a figure, or JSON."""
    parser = argparse.ArgumentParser(prog="bench console", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--devices-per-node", type=int, default=8)
    parser.add_argument("--changes", type=int, default=10, help="the number of timed changes")
    parser.add_argument(
        "--idle", type=float, default=10.0, help="how long the idle server is measured, in seconds"
    )
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    found: dict[str, float] = {}
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        for nodes, devices, prefix in ((*_SMALL, "small_"), (chosen.nodes, chosen.devices_per_node, "")):
            with _server(Path(folder, prefix or "large")) as server:
                _fill(server.url, nodes, devices)
                browser = playwright.chromium.launch(
                    executable_path=_chromium(), args=["--no-sandbox", "--disable-gpu"]
                )
                page = browser.new_page(viewport=_VIEW)
                measured = _Measured(page, server, nodes * devices)
                found.update(measured.time_first_picture(prefix))
                found["payload_kib"] = measured.payload
                if not prefix:
                    found.update(measured.rest(chosen.changes, chosen.idle))
                browser.close()
    if chosen.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        sign, goal = _GOALS.get(name, ("", 0.0))
        verdict = f"  goal {sign} {goal:.4g}" if sign else ""
        print(f"{name:<26}{value:>10.1f}{verdict}")


@dataclass
class _Server:
    """An API server in a separate process."""

    url: str
    process: "subprocess.Popen[str]"

    def cpu_seconds(self) -> float:
        """Return the CPU time of the server's process."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def _server(data: Path) -> Iterator[_Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "dra_apiserver.main",
        "--port",
        str(port),
        "--data",
        str(data),
        "--relaxed",
    ]
    command += ["--runtime-config", "api/all=true", "--feature-gates", _GATES]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while not _answers(url):
            if time.monotonic() > deadline or process.poll() is not None:
                raise SystemExit("the API server does not start")
            time.sleep(0.05)
        yield _Server(url, process)
    finally:
        process.terminate()
        process.wait(20)


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{url}/readyz").status_code == 200
    return False


def _fill(url: str, nodes: int, devices: int) -> None:
    """Create nodes with GPUs. Each tenth device is allocated."""
    with httpx.Client(base_url=url, timeout=60) as client:

        def post(path: str, body: JsonObject, status: JsonObject | None = None) -> None:
            answer = client.post(path, json=body)
            answer.raise_for_status()
            if status is not None:
                put = {**answer.json(), "status": status}
                client.put(f"{path}/{body['metadata']['name']}/status", json=put).raise_for_status()

        ready = {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}
        for number in range(nodes):
            name = f"node-{number}"
            labels = {"topology.kubernetes.io/zone": f"zone-{number % 3}", "kubernetes.io/hostname": name}
            post("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}}, ready)
            post(f"{_DRA}/resourceslices", _slice(name, devices))
        for number in range(nodes * devices // 10):
            node, device = f"node-{number * 10 // devices}", f"gpu-{number * 10 % devices}"
            claims = f"{_DRA}/namespaces/default/resourceclaims"
            exactly = {"deviceClassName": "gpu.example.com"}
            spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
            result = {"request": "gpu", "driver": "gpu.example.com", "pool": node, "device": device}
            allocation = {"devices": {"results": [result]}}
            post(claims, {"metadata": {"name": f"claim-{number}"}, "spec": spec}, {"allocation": allocation})


def _slice(node: str, devices: int) -> JsonObject:
    def device(number: int) -> JsonObject:
        attributes: JsonObject = {
            "uuid": {"string": f"GPU-{node}-{number:08x}"},
            "model": {"string": "A100" if number % 2 else "H100"},
            "index": {"int": number},
            "driverVersion": {"version": "580.95.5"},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number // 2:02x}"},
        }
        return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}

    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    found = [device(number) for number in range(devices)]
    spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": found}
    return {"metadata": {"name": f"{node}-gpu"}, "spec": spec}


class _Measured:
    """An open page of the console."""

    def __init__(self, page: Page, server: _Server, boards: int) -> None:
        self._page = page
        self._server = server
        self._boards = boards
        self._session = page.context.new_cdp_session(page)
        self._browser: CDPSession | None = None
        self.payload = 0.0

    def time_first_picture(self, prefix: str) -> dict[str, float]:
        """Measure the time from the request of the page until all devices are drawn, and Chromium's CPU time."""
        files: set[str] = set()
        total = 0

        def record_response(event: JsonObject) -> None:
            if re.search(r"/(console|assets)/", event["response"]["url"]):
                files.add(event["requestId"])

        def count_bytes(event: JsonObject) -> None:
            nonlocal total
            if event["requestId"] in files:
                total += event["encodedDataLength"]

        self._session.send("Network.enable")
        self._session.on("Network.responseReceived", record_response)
        self._session.on("Network.loadingFinished", count_bytes)
        before = self._cpu_ms()
        self._page.goto(f"{self._server.url}/console/#/fleet?as=map", wait_until="commit")
        took: float = self._page.evaluate(_SHOWN, self._boards)
        cpu = self._cpu_ms() - before
        self._page.wait_for_timeout(500)
        self._session.send("Network.disable")
        self.payload = total / 1024
        return {f"{prefix}shown_ms": took, f"{prefix}shown_cpu_ms": cpu}

    def rest(self, changes: int, idle: float) -> dict[str, float]:
        """Measure changes, frames and the page's memory, and the server's CPU time while the page is only open."""
        before = self._cpu_ms()
        found = {"change_ms": statistics.median(self._change() for _ in range(changes))}
        # Each change is undone, and that counts as a change, too.
        found["change_cpu_ms"] = (self._cpu_ms() - before) / changes / 2
        with_page = self._server_percent(idle)
        found.update(self._pan())
        found["memory_mib"] = self._memory()
        self._page.evaluate("() => document.querySelector('canvas').picture.zoom(6)")
        found.update(self._pan("near_"))
        self._page.goto("about:blank")
        found["idle_server_percent"] = max(0.0, with_page - self._server_percent(idle))
        return found

    def _change(self) -> float:
        rules = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
        took: float = self._page.evaluate(_CHANGE, rules)
        return took

    def _pan(self, prefix: str = "") -> dict[str, float]:
        """Return the frames per second while the picture is dragged, and the CPU ms per frame (main thread and all)."""
        box = self._page.locator("canvas").bounding_box()
        assert box is not None
        mouse, middle = self._page.mouse, (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        mouse.move(*middle)
        mouse.down()
        trace = _Trace(self._session)
        before = self._cpu_ms()
        end = time.monotonic() + _PAN_SECONDS
        step = 0
        while time.monotonic() < end:
            step += 1
            mouse.move(middle[0] + (step * 7) % 300, middle[1] + (step * 5) % 200)
        used = self._cpu_ms() - before
        events = trace.stop()
        mouse.up()
        begun = [one for one in events if one["name"] == _FRAME]
        seconds = (max(one["ts"] for one in begun) - min(one["ts"] for one in begun)) / 1e6
        used_by_main: list[int] = [one.get("tdur") or one["dur"] for one in begun]
        return {
            f"{prefix}frames_per_second": (len(begun) - 1) / seconds,
            f"{prefix}frame_cpu_ms": sum(used_by_main) / 1000 / len(begun),
            f"{prefix}frame_all_cpu_ms": used / len(begun),
        }

    def _cpu_ms(self) -> float:
        """Return the CPU time of all of Chromium's processes."""
        return 1000 * sum(float(one["cpuTime"]) for one in self._processes())

    def _processes(self) -> list[JsonObject]:
        if self._browser is None:
            browser = self._page.context.browser
            assert browser is not None
            self._browser = browser.new_browser_cdp_session()
        found: list[JsonObject] = self._browser.send("SystemInfo.getProcessInfo")["processInfo"]
        return found

    def _memory(self) -> float:
        """Return the private memory of the page's process in MiB, after a garbage collection."""
        self._session.send("HeapProfiler.collectGarbage")
        renderers = [one["id"] for one in self._processes() if one["type"] == "renderer"]
        return max(map(_private, renderers)) / 1024

    def _server_percent(self, seconds: float) -> float:
        before = self._server.cpu_seconds()
        self._page.wait_for_timeout(seconds * 1000)
        return (self._server.cpu_seconds() - before) / seconds * 100


def _private(process: int) -> int:
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    return sum(map(int, re.findall(r"^Private_\w+: +(\d+) kB", text, re.MULTILINE)))


class _Trace:
    """A recording of Chromium's trace events, which begins with the object's creation."""

    def __init__(self, session: CDPSession) -> None:
        self._session = session
        self._events: list[JsonObject] = []
        self._complete = False
        session.on("Tracing.dataCollected", lambda event: self._events.extend(event["value"]))
        session.on("Tracing.tracingComplete", self._finish)
        session.send("Tracing.start", {"traceConfig": {"includedCategories": _TRACED}})

    def _finish(self, _: JsonObject) -> None:
        self._complete = True

    def stop(self) -> list[JsonObject]:
        """End the trace, and return all events that have a time."""
        self._session.send("Tracing.end")
        while not self._complete:
            # Make a call: while it waits for its response, the pending trace events are received.
            self._session.send("Runtime.evaluate", {"expression": "0"})
        return [one for one in self._events if one.get("ph") in ("X", "I")]


def _chromium() -> str:
    path = next((path for name in _CHROMIUM if (path := shutil.which(name))), None)
    if path is None:
        raise SystemExit("needs Chromium: tools/browser installs it")
    return path


if __name__ == "__main__":
    main()
