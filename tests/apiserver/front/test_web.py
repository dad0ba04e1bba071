"""Test the console's modules that need no server, in Chromium."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from dra_apiserver.front import console
from playwright.sync_api import Page, Route

from tests.support.chromium import chromium

_WEB = Path(console.__file__).with_name("web")
_PAGE = "http://console.test/console/"

pytestmark = pytest.mark.slow


def _answer(route: Route) -> None:
    name = route.request.url.removeprefix(_PAGE)
    if name:
        route.fulfill(path=_WEB / name, content_type="text/javascript")
    else:
        route.fulfill(body="<!doctype html>", content_type="text/html")


@pytest.fixture(scope="module")
def modules() -> Iterator[Page]:
    """Return an empty page at the console's origin, in which tests import single modules of the console."""
    with chromium() as browser:
        page = browser.new_page()
        page.route("**/*", _answer)
        page.goto(_PAGE)
        yield page


_STRANDED = """async () => {
  const { fleet } = await import("/console/fleet.js");
  const consumes = (value) => [{ counterSet: "gpu-0", counters: { slices: { value } } }];
  const part = (name, value) => ({ name, consumesCounters: consumes(value) });
  const shared = (name, policy) => ({
    name, allowMultipleAllocations: true, capacity: { bandwidth: { value: "10", requestPolicy: policy } } });
  const slice = {
    driver: "d", pool: { name: "n" }, nodeName: "n",
    sharedCounters: [{ name: "gpu-0", counters: { slices: { value: "7" } } }],
    devices: [part("a", "4"), part("b", "4"), shared("nic", { validRange: { min: "4" } }), shared("any")] };
  const result = (device, consumedCapacity) => ({ driver: "d", pool: "n", device, consumedCapacity });
  const results = [result("a"), result("nic", { bandwidth: "8" }), result("any", { bandwidth: "8" })];
  const claim = { key: "x/c", namespace: "x", pods: [], results };
  const made = (claims) => fleet({
    nodes: new Map(), slices: new Map([["s", slice]]), claims: new Map(claims), pods: new Map(), rules: new Map() });
  const names = ({ nodes }) => nodes[0].boards.filter((board) => board.stranded).map((board) => board.name);
  return [names(made([])), names(made([["x/c", claim]]))];
}"""


def test_capacity_that_fits_no_request_is_stranded(modules: Page) -> None:
    """Check a GPU whose free counters fit no partition and are less than the smallest share of a device."""
    assert modules.evaluate(_STRANDED) == [[], ["gpu-0", "nic"]]


_UNCHANGED = """async () => {
  const { fleet } = await import("/console/fleet.js");
  const device = (name) => ({ name });
  const slice = (node) => ({ driver: "d", pool: { name: node }, nodeName: node, devices: ["a", "b"].map(device) });
  const nodes = new Map(["n-1", "n-2", "n-10"].map((name) => [name, { name, labels: {}, ready: true }]));
  const slices = new Map([...nodes.keys()].map((node) => [node, slice(node)]));
  const claim = { key: "x/c", namespace: "x", pods: ["p"], results: [{ driver: "d", pool: "n-2", device: "b" }] };
  const look = (claims, pods, rules) => fleet({
    nodes, slices, claims: new Map(claims), pods: new Map(pods), rules: new Map(rules) });
  const resources = [{ resourceID: "d/n-2/b", health: "Unhealthy" }];
  const pod = (phase, more) => ["x/p", { phase, statuses: [{ allocatedResourcesStatus: [{ resources: more }] }] }];
  const rule = { name: "r", deviceSelector: { pool: "n-10" }, taint: { key: "k", effect: "NoSchedule" } };
  const seen = [
    look([], [], []), look([["x/c", claim]], [], []), look([["x/c", claim]], [pod("Running", [])], []),
    look([["x/c", claim]], [pod("Running", resources)], []), look([], [], [["r", rule]]), look([], [], [])];
  const names = ({ nodes }) => nodes.map((node) => `${node.name} ${node.boards.map((board) => board.state)}`);
  const same = seen.slice(1).map(({ nodes }, at) => nodes.map((node, index) => node === seen[at].nodes[index]));
  return [seen.map(names), same, seen.map(({ totals }) => totals.states.free)];
}"""


def test_nodes_that_a_change_does_not_affect_stay_the_same_javascript_objects(modules: Page) -> None:
    """Check that unchanged nodes stay the same objects. Examining all of 5,000 nodes would be too slow."""
    names, same, free = modules.evaluate(_UNCHANGED)
    first, others = "n-1 free,free", "n-10 free,free"
    held = [[first, f"n-2 free,{state}", others] for state in ("waiting", "used", "unhealthy")]
    rest = [first, "n-2 free,free", others]
    tainted = [first, "n-2 free,free", "n-10 tainted,tainted"]
    assert names == [rest, *held, tainted, rest]
    only_second = [True, False, True]
    assert same == [*[only_second] * 3, [True, False, False], [True, True, False]]
    assert free == [6, 5, 5, 5, 4, 6]


_PIXELS = """async () => {
  const [{ Bitmap }, { layout }] = await Promise.all([import("/console/bitmap.js"), import("/console/layout.js")]);
  const board = (fill) => ({ fill });
  const plan = (fills) => layout(fills.map((some) => ({ boards: some.map(board) })));
  const asked = [];
  const bitmap = new Bitmap((one) => (asked.push(one), { base: "rgb(1 2 3)", full: "rgb(7 8 9)" }));
  const red = (canvas) => {
    const { width, height } = canvas;
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    return [1, 7].map((value) => data.filter((one, index) => index % 4 === 0 && one === value).length);
  };
  const first = plan([[0, 1], [0.5]]);
  const found = [red(bitmap.of(first))];
  const [kept] = first.places;
  const second = { ...first, places: [kept, { ...first.places[1], boards: [] }] };
  asked.length = 0;
  found.push(red(bitmap.of(second)), [asked.length]);
  bitmap.recolour();
  bitmap.of(second);
  return [...found, [asked.length]];
}"""


def test_only_changed_node_pictures_are_redrawn(modules: Page) -> None:
    """Count the pixels. A device's picture has three by three: light if free, solid if full, else filled from below."""
    assert modules.evaluate(_PIXELS) == [[9 + 3, 9 + 6], [9, 9], [0], [2]]


_DETAILS = """async () => {
  const [{ fleet }, { details }] = await Promise.all([import("/console/fleet.js"), import("/console/details.js")]);
  const one = { value: "1" };
  const slot = (...places) => Object.fromEntries([["memory", one], ...places.map((at) => [`slice-${at}`, one])]);
  const part = (name, ...places) => ({ name, consumesCounters: [{ counterSet: "gpu-0", counters: slot(...places) }] });
  const whole = (name) => ({ name, consumesCounters: [{ counterSet: "plain", counters: { memory: { value: "5" } } }] });
  const nic = { name: "nic", allowMultipleAllocations: true, capacity: { bandwidth: { value: "8Gi" } } };
  const slice = {
    driver: "d", pool: { name: "n" }, nodeName: "n",
    sharedCounters: [
      { name: "gpu-0", counters: { ...slot(0, 1, 2, 10), memory: { value: "9" } } },
      { name: "plain", counters: { memory: { value: "10" } } }],
    devices: [
      part("gpu-0", 0, 1, 2, 10), part("gpu-0-half-0", 0, 1), part("gpu-0-half-1", 2, 10), part("gpu-0-one-a", 0),
      part("gpu-0-one-b", 0), part("gpu-0-one-c", 10), whole("p-a"), whole("p-b"), nic, { name: "simple" }] };
  const result = (device, consumedCapacity) => ({ driver: "d", pool: "n", device, consumedCapacity });
  const results = [result("gpu-0-half-1"), result("nic", { bandwidth: "2Gi" }), result("nic", { bandwidth: "4Gi" })];
  const claims = [["x/c", { key: "x/c", namespace: "x", pods: ["p"], results }]];
  const { nodes } = fleet({
    nodes: new Map(), slices: new Map([["s", slice]]), claims: new Map(claims), pods: new Map(), rules: new Map() });
  const text = ({ name, note, board, x, y, width, height }) => [name, note, board.fill, x, y, width, height];
  return Object.fromEntries(nodes[0].boards.map((board) => [board.name, details(board).map(text)]));
}"""


def test_a_node_picture_shows_placements_and_shares(modules: Page) -> None:
    """Check that partitions are in rows by size, above the counters that they use, and shares are stacked."""
    found = modules.evaluate(_DETAILS)
    rows = 4
    assert found["gpu-0"] == [
        ["gpu-0", "blocked", 0, 0, 0, 1, 1 / rows],
        ["half-0", "free", 0, 0, 0.25, 0.5, 0.25],
        ["half-1", "p", 1, 0.5, 0.25, 0.5, 0.25],
        ["one-a", "free", 0, 0, 0.5, 0.25, 0.25],
        ["one-c", "blocked", 0, 0.75, 0.5, 0.25, 0.25],
        ["one-b", "free", 0, 0, 0.75, 0.25, 0.25],
    ]
    assert found["plain"] == [["p-a", "free", 0, 0, 0, 0.5, 1], ["p-b", "free", 0, 0.5, 0, 0.5, 1]]
    assert found["nic"] == [
        ["nic", "2Gi of bandwidth left", 0, 0, 0, 1, 1],
        ["2Gi of bandwidth", "p", 1, 0, 0.75, 1, 0.25],
        ["4Gi of bandwidth", "p", 1, 0, 0.25, 1, 0.5],
    ]
    assert found["simple"] == [["simple", "free", 0, 0, 0, 1, 1]]


_SERIES = """async () => {
  const { series } = await import("/console/series.js");
  const results = (...devices) => devices.map((device) => ({ driver: "d", pool: "n", device }));
  const status = (...devices) => ({ allocation: { devices: { results: results(...devices) } } });
  const change = (time, type, name, ...changes) => ({ time, type, namespace: "x", name, changes });
  const allocation = (old, current) => ({ path: ".status.allocation", old: old?.allocation, new: current?.allocation });
  const day = (hour) => `2026-01-01T0${hour}:00:00Z`;
  // The parts of a GPU are one device of the machine.
  const [a, b] = [{ key: "a", model: "A" }, { key: "b", model: "B" }];
  const board = (key) => ({ "d/n/a": a, "d/n/b-1": b, "d/n/b-2": b })[key];
  const changes = [
    change(day(1), "MODIFIED", "old", allocation(status("a"), undefined)),
    change(day(2), "ADDED", "part"),
    change(day(3), "MODIFIED", "part", { path: ".status", new: status("b-1") }),
    change(day(4), "MODIFIED", "part", { path: ".status.reservedFor", new: [] }),
    change(day(5), "DELETED", "part")];
  const claims = [{ key: "x/stays", results: results("b-2", "gone") }, { key: "x/old", results: [] }];
  const hour = (time) => new Date(time).getUTCHours();
  return series(changes, claims, board).map(({ time, used }) => [hour(time), used.get("A"), used.get("B")]);
}"""


def test_utilisation_over_time_is_read_from_the_history_of_claims(modules: Page) -> None:
    assert modules.evaluate(_SERIES) == [[1, 0, 1], [3, 0, 1], [5, 0, 1]]


_ARRANGED = """async () => {
  const { arrange } = await import("/console/arrangement.js");
  const page = { width: 1300, height: 620 };
  const one = (groups, more) => arrange(groups, { ...page, framed: groups.length > 1, ...more });
  const eight = (cards) => ({ cards, tiles: 8 });
  return [one([eight(4)]), one([eight(40)]), one([eight(4)], { zoom: 0.5 }), one([eight(4)], { width: 360 })].map(
    ({ size, across, height, row }) => [size, across, height <= page.height, row]);
}"""


def test_node_tiles_are_as_large_as_the_page_allows(modules: Page) -> None:
    few, many, smaller, narrow = modules.evaluate(_ARRANGED)
    assert few[:3] == ["large", 2, True]
    assert many[0] == "tiny"
    assert many[2]
    assert smaller[0] != "large"
    assert narrow[0] == "medium"


_WRITTEN = """async () => {
  const { sinceCreated, firstWritten, createdAt } = await import("/console/written.js");
  const field = ([path, value]) => ({ path, new: value });
  const change = (time, type, ...changes) => ({ time, type, changes: changes.map(field) });
  const all = [
    change("a", "ADDED"), change("b", "MODIFIED", [".status.phase", "Running"]), change("c", "DELETED"),
    change("d", "ADDED"),
    change("e", "MODIFIED", [".status", { phase: "Pending" }]),
    change("f", "MODIFIED", [".status.phase", "Running"])];
  const last = sinceCreated(all);
  const phase = (wanted) => firstWritten(last, ".status.phase", (value) => value === wanted) ?? "";
  return [createdAt(last), createdAt(all.slice(1)) ?? "", phase("Pending"), phase("Running"), phase("Failed")];
}"""


def test_the_first_write_of_a_field_is_found_in_its_history(modules: Page) -> None:
    assert modules.evaluate(_WRITTEN) == ["d", "", "e", "f", ""]
