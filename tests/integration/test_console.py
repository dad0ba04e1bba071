"""The console in a real Chromium, on a real cluster: views and actions, by mouse and by keyboard."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from dra_kube.cluster import Cluster
from playwright.sync_api import Browser, Page, expect

from tests.integration.consoleserver import DRA, ConsoleServer, open_console
from tests.integration.lab import Setup, on
from tests.support.chromium import shoot
from tests.support.waiting import blocking_until

_CONSOLE = Setup("console", ("gpu.nvidia.com",), nodes=2)
_A100 = "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA A100-SXM4-40GB'"

pytestmark = [pytest.mark.slow, on(_CONSOLE)]


@pytest.fixture
def server(cluster: Path) -> Iterator[ConsoleServer]:
    made = ConsoleServer(Cluster(cluster).record().server)
    yield made
    made.close()


def _chip(page: Page, state: str) -> int:
    text = page.get_by_role("button", name=re.compile(f"^{state} ")).inner_text()
    return int(text.split()[-1])


def test_the_overview_shows_what_is_in_use_and_what_waits(page: Page, server: ConsoleServer) -> None:
    server.claim("works", "true")
    server.claim("zz-waits", "device.attributes['gpu.nvidia.com'].productName.contains('H100')")
    page.goto(f"{server.url}/console/")
    overview = page.get_by_role("region", name="Overview")
    expect(overview.locator(".figure").first).to_contain_text("2 of 16 devices")
    waiting = page.get_by_role("region", name="What waits")
    expect(waiting).to_contain_text(f"{server.namespace}/zz-waits")
    expect(waiting).to_contain_text("What would help: if request gpu of claim")
    chart = overview.get_by_role("img", name=re.compile("^Devices in use .* A100-SXM4-40GB 13 percent"))
    # The line begins at zero, because the history also covers the time before the first claim.
    expect(chart.locator("path.line")).to_have_attribute("d", re.compile("^M0 .*V210H1000$"))
    expect(page.get_by_role("region", name="Recent incidents")).to_contain_text("failed scheduling")
    assert Axe().run(page).violations_count == 0
    shoot(page, "overview")


def test_the_fleet_view_updates_when_devices_are_allocated(page: Page, server: ConsoleServer) -> None:
    open_console(page, server)
    free = _chip(page, "free")
    server.claim("train", "true")
    expect(page.get_by_role("button", name="used 2")).to_be_visible()
    assert _chip(page, "free") == free - 2
    page.get_by_role("button", name="used 2").click()
    page.get_by_text("As a table (2)").click()
    expect(page.locator("details.table tbody tr")).to_have_count(2)
    page.locator("details.table tbody button").first.click()
    panel = page.get_by_role("complementary", name="Device")
    expect(panel).to_contain_text("NVIDIA A100-SXM4-40GB")
    page.get_by_role("button", name="used 2").click()
    shoot(page, "fleet")
    panel.get_by_role("link", name="pod train").click()
    expect(page.get_by_role("heading", name=f"Pod {server.namespace}/train")).to_be_visible()


def test_displayed_ages_are_updated_even_if_no_object_changes(page: Page, server: ConsoleServer) -> None:
    server.claim("train", "true")
    page.clock.install()
    open_console(page, server, "#/pods")
    age = page.locator("table.rows tbody tr").filter(has_text="train").locator("td").nth(3)
    expect(age).to_have_text(re.compile(r"^\d+ m?s$"))
    page.clock.fast_forward("02:30:00")
    expect(age).to_have_text(re.compile(r"^2 h 3\d min$"))


def test_every_device_is_reachable_by_keyboard(page: Page, server: ConsoleServer) -> None:
    open_console(page, server)
    page.get_by_role("button", name="Map", exact=True).click()
    picture = page.locator("canvas")
    picture.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#chosen")).to_have_text(re.compile(r"^node-0 \S+: free$"))
    first = page.locator("#chosen").inner_text()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#chosen")).not_to_have_text(first)
    for key in ("+", "+", "-", "0"):
        page.keyboard.press(key)
    page.keyboard.press("Escape")
    expect(page.locator("#chosen")).to_have_text("")


def test_nodes_are_cards_with_a_labelled_tile_for_each_gpu(page: Page, server: ConsoleServer) -> None:
    server.claim("train", "true")
    open_console(page, server)
    tiles = page.get_by_role("article", name="node-0").locator(".tiles .tile")
    # Four of the eight GPUs are cut into MIG devices, which are no GPUs of their own.
    expect(tiles).to_have_count(8)
    expect(tiles.first).to_contain_text("A100-SXM4-40GB")
    expect(page.locator(".tile.used .owner", has_text="train")).to_have_count(2)
    size = "() => document.querySelector('.frames').dataset.size"
    fitted = page.evaluate(size)
    tiles.first.focus()
    page.keyboard.press("ArrowRight")
    expect(tiles.nth(1)).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary", name="Device")).to_contain_text("on node-0")
    for _ in range(4):
        page.keyboard.press("-")
    blocking_until(lambda: page.evaluate(size) != fitted)
    page.keyboard.press("0")
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary", name="Device")).to_have_count(0)
    assert Axe().run(page).violations_count == 0


def test_the_effect_of_an_action_is_previewed_before_it_is_done(page: Page, server: ConsoleServer) -> None:
    server.claim("train", "true")
    open_console(page, server)
    page.get_by_role("button", name="used 2").click()
    page.get_by_text("As a table (2)").click()
    row = page.locator("details.table tbody tr").first
    node = row.locator("td").first.inner_text()
    row.get_by_role("button").click()
    panel = page.get_by_role("complementary", name="Device")
    panel.get_by_role("button", name=f"Drain node {node}", exact=True).click()
    expect(panel.locator(".preview")).to_contain_text("pods would")
    expect(panel.locator(".preview")).to_contain_text(f"{server.namespace}/train")
    # The preview has not changed the node.
    assert not server.get(f"/api/v1/nodes/{node}")["spec"].get("unschedulable")
    panel.get_by_role("button", name=re.compile("^Taint device .*: NoExecute$")).click()
    panel.get_by_role("button", name=re.compile("^Taint device .*: NoExecute now$")).click()
    expect(panel.get_by_role("status")).to_have_text(re.compile(r"^devicetaintrule console-\S+ is created$"))
    blocking_until(lambda: server.pods() == [])
    page.get_by_role("button", name="used 0").click()
    undo = panel.get_by_role("button", name=re.compile("^Remove taint of rule console-"))
    undo.click()
    expect(undo).to_have_count(0)


def test_a_preview_lists_what_it_cannot_predict(page: Page, server: ConsoleServer) -> None:
    answer = {"moved": 0, "stuck": 0, "moves": [], "uncertain": ["there are no DeviceClasses"]}
    page.route("**/insight/plan/drain", lambda route: route.fulfill(json=answer))
    open_console(page, server)
    page.get_by_text("As a table").click()
    page.locator("details.table tbody button").first.click()
    panel = page.get_by_role("complementary", name="Device")
    panel.get_by_role("button", name=re.compile("^Drain node ")).first.click()
    expect(panel.locator(".preview")).to_contain_text("Uncertain: there are no DeviceClasses")


def test_the_effect_of_additional_nodes_is_previewed(page: Page, server: ConsoleServer) -> None:
    for number in range(5):
        server.claim(f"pod-{number}", "true")
    open_console(page, server)
    # Eight GPUs are not partitioned, so there is no fifth pair.
    expect(page.get_by_role("button", name=re.compile("^used 8$"))).to_be_visible()
    page.get_by_text("As a table").click()
    page.locator("details.table tbody button").first.click()
    panel = page.get_by_role("complementary", name="Device")
    panel.get_by_role("button", name="Add five nodes such as node-0").click()
    expect(panel.locator(".preview")).to_contain_text("5 of 5 pods would be placed, 4 without them")
    assert len(server.get("/api/v1/nodes")["items"]) == 2


def test_devices_are_filtered_colored_and_grouped_by_class(page: Page, server: ConsoleServer) -> None:
    open_console(page, server)
    page.get_by_text("As a table").click()
    rows = page.locator("details.table tbody tr")
    expect(rows.first).to_be_visible()
    every = rows.count()
    page.get_by_label("Devices of").select_option("gpu.nvidia.com")
    # A GPU in MIG mode only has partitions, which another class selects.
    expect(rows.first).to_be_visible()
    whole = rows.count()
    assert 0 < whole < every
    page.get_by_label("Devices of").select_option("mig.nvidia.com")
    expect(rows).to_have_count(every - whole)
    page.get_by_label("Devices of").select_option("(none)")
    expect(rows).to_have_count(0)
    page.get_by_label("Devices of").select_option("")
    page.get_by_label("Colour by").select_option("class")
    expect(page.locator(".legend")).to_contain_text(f"gpu.nvidia.com · {whole}")
    page.get_by_label("Group by").select_option("namespace")
    page.get_by_label("Group by").select_option("class")
    expect(rows).to_have_count(every)


def test_devices_of_one_state_may_be_shown_alone(page: Page, server: ConsoleServer) -> None:
    open_console(page, server)
    page.get_by_role("button", name="stranded 0").click()
    page.get_by_text("As a table (0)").click()


def test_a_node_has_a_panel_and_its_taint_is_previewed_set_and_removed(
    page: Page, server: ConsoleServer
) -> None:
    server.claim("train", "true")
    open_console(page, server, f"#/pods/{server.namespace}/train")
    page.get_by_role("link", name=re.compile("^node-")).click()
    page.get_by_role("link", name="in the picture").click()
    panel = page.get_by_role("complementary", name="Node")
    expect(panel.get_by_role("link", name=f"{server.namespace}/train")).to_be_visible()
    node = panel.get_by_role("heading").first.inner_text()
    path = f"/api/v1/nodes/{node}"
    panel.get_by_role("button", name=f"Delete node {node}", exact=True).click()
    expect(panel.locator(".preview")).to_contain_text("1 would be stuck")
    panel.get_by_role("button", name=f"Taint node {node}: NoSchedule", exact=True).click()
    expect(panel.locator(".preview")).to_contain_text("0 would be stuck")
    assert not server.get(path)["spec"].get("taints")
    panel.get_by_role("button", name=f"Taint node {node}: NoSchedule now").click()
    expect(panel.get_by_text("taint dralab.io/console:NoSchedule")).to_be_visible()
    panel.get_by_role("button", name=f"Remove taint of node {node}").click()
    expect(panel.get_by_text("taint dralab.io/console:NoSchedule")).to_have_count(0)
    assert not server.get(path)["spec"].get("taints")
    assert Axe().run(page).violations_count == 0
    # The details of a chosen device replace those of the node, and vice versa.
    page.get_by_text("As a table").click()
    page.locator("details.table tbody button").first.click()
    expect(panel).to_have_count(0)
    page.get_by_role("complementary", name="Device").get_by_role("link", name=re.compile("^node-")).click()
    expect(panel).to_be_visible()
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_have_count(0)


def test_devices_have_names_when_zoomed_in(page: Page, server: ConsoleServer) -> None:
    open_console(page, server)
    page.get_by_role("button", name="Map", exact=True).click()
    page.locator("canvas").focus()
    # The first four are cut into MIG devices, whose names are shown instead.
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    shown = "() => document.querySelector('canvas').picture.parts.map((part) => part.name)"
    for _ in range(3):
        page.keyboard.press("-")
    blocking_until(lambda: page.evaluate(shown) == [])
    for _ in range(16):
        page.keyboard.press("+")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowLeft")
    chosen = page.locator("#chosen").inner_text().removeprefix("node-0 ").partition(":")[0]
    blocking_until(lambda: chosen in page.evaluate(shown))


def test_lists_are_requested_without_indentation(page: Page, server: ConsoleServer) -> None:
    """A browser's User-Agent gets indented JSON, which takes the server and the browser three times as long."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    open_console(page, server)
    lists = [url for url in asked if "limit=" in url]
    assert len(lists) >= 6
    assert all("pretty=false" in url for url in lists)


def test_the_effect_of_losing_a_pod_or_device_is_previewed(page: Page, server: ConsoleServer) -> None:
    for number in range(5):
        server.claim(f"pod-{number}", "true")
    open_console(page, server)
    page.get_by_role("button", name=re.compile("^used 8$")).click()
    page.get_by_text("As a table").click()
    page.locator("details.table tbody button").first.click()
    panel = page.get_by_role("complementary", name="Device")
    panel.get_by_role("button", name=re.compile("^Lose device ")).click()
    expect(panel.locator(".preview")).to_contain_text("3 of 5 pods would be placed, 4 now")
    pods = server.get(f"/api/v1/namespaces/{server.namespace}/pods")["items"]
    [waits] = [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]
    page.goto(f"{server.url}/console/#/pods/{server.namespace}/{waits}")
    remedies = page.get_by_role("region", name="Remedies")
    # The scheduler's remedy is to free the claim of another pod.
    remedies.get_by_role("button", name=re.compile(r"^Delete pod pod-\d$")).click()
    expect(remedies.locator(".preview")).to_contain_text("4 of 4 other pods would be placed, 3 now")
    page.goto(f"{server.url}/console/#/pods/{server.namespace}/pod-0")
    whatif = page.get_by_role("region", name="What if")
    whatif.get_by_role("button", name="Delete pod pod-0", exact=True).click()
    preview = whatif.locator(".preview")
    expect(preview).to_contain_text("4 of 4 other pods would be placed, 3 now")
    assert len(server.pods()) == 5
    preview.get_by_role("button", name="Delete pod pod-0 now").click()
    blocking_until(lambda: "pod-0" not in server.pods())


def test_a_pending_pod_is_listed_first_with_its_reasons(page: Page, server: ConsoleServer) -> None:
    server.claim("works", "true")
    server.claim("zz-waits", "device.attributes['gpu.nvidia.com'].productName.contains('H100')")
    open_console(page, server, "#/pods")
    first = page.locator("tbody tr").first
    expect(first).to_contain_text("0/2 nodes are available: 2 cannot allocate all claims")
    expect(first).to_contain_text("What would help: if request gpu of claim")
    first.get_by_role("link").click()
    expect(page.get_by_text("What would help:")).to_be_visible()
    tree = page.locator("details.tree details.tree")
    expect(tree.first).to_contain_text("2 wanted, 0 would suit")
    tree.locator("details.tree summary", has_text="selector #0 of the request").first.click()
    expect(page.get_by_role("row", name="productName NVIDIA A100-SXM4-40GB").first).to_be_visible()
    shoot(page, "explanation")


def test_a_pod_has_its_phases_devices_and_log(page: Page, server: ConsoleServer) -> None:
    server.claim("train", "true")
    open_console(page, server, f"#/pods/{server.namespace}/train")
    expect(page.locator(".timeline li.done", has_text="containers started")).to_be_visible()
    page.get_by_text("Log", exact=True).click()
    expect(page.locator("pre.log")).to_contain_text("at work")
    page.get_by_role("link", name="train", exact=True).click()
    expect(page.get_by_role("heading", name=f"Claim {server.namespace}/train")).to_be_visible()
    expect(page.locator(".timeline li.done")).to_have_count(6)
    # Kubernetes' own times are seconds: all six phases took place in one or two of them.
    expect(
        page.locator(".timeline li", has_text=re.compile("^allocated .* after [0-9]+ ms$"))
    ).to_be_visible()
    expect(page.locator("table.devices tbody tr")).to_have_count(2)


def test_a_terminal_in_the_browser_is_a_shell_in_the_container(page: Page, server: ConsoleServer) -> None:
    server.claim("train", "true")
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(f"{message.text[:60]} {message.location}"))
    open_console(page, server, f"#/pods/{server.namespace}/train")
    page.get_by_text(re.compile("^What its devices brought: ")).click()
    expect(page.get_by_role("cell", name="device node").first).to_be_visible()
    expect(page.locator(".injected code", has_text=re.compile("^/dev/nvidia[0-9] "))).to_have_count(2)
    page.get_by_role("button", name="Open a terminal").click()
    rows = page.locator(".xterm-rows")
    expect(rows).to_contain_text("/ #")
    page.keyboard.type("nvidia-smi -L | wc -l; stty size\n")
    expect(rows).to_contain_text(re.compile(r"wc -l; stty size\s*2\s*(\d+) (\d+)"))
    page.locator(".shell").scroll_into_view_if_needed()
    shoot(page, "terminal")
    page.set_viewport_size({"width": 700, "height": 800})
    page.keyboard.type("clear; echo $COLUMNS is narrow; printf '\\033[38;2;1;2;3mdeep\\033[0m\\n'\n")
    expect(rows).to_contain_text(re.compile(r"\b[4-7]\d is narrow\s*deep"))
    assert Axe().run(page).violations_count == 0
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("button", name="Close it")).to_be_focused()
    page.locator(".xterm").click()
    page.keyboard.type("exit 3\n")
    expect(page.get_by_text("ended with exit code 3")).to_be_visible()
    # The page's policy forbids nothing that the terminal does.
    assert complaints == []


def test_the_workbench_updates_at_each_keystroke(page: Page, server: ConsoleServer) -> None:
    open_console(page, server, "#/cel")
    field = page.get_by_role("textbox", name="Selector")
    field.press_sequentially('device.attributes["gpu')
    expect(page.locator("#options li").first).to_contain_text('device.attributes["gpu.nvidia.com"]')
    field.press("Enter")
    field.press_sequentially("produ")
    field.press("Tab")
    field.press_sequentially('.contains("A100") && device.driver == "x"')
    expect(page.get_by_text(re.compile(r"^0 of \d+ devices match"))).to_be_visible()
    expect(page.locator(".clauses li").nth(1)).to_contain_text('device.driver == "x": true for 0')
    shoot(page, "workbench")
    field.fill("device.drivr")
    expect(page.get_by_role("alert")).to_have_text("device.drivr\n      ^ undefined field 'drivr'")
    field.fill(_A100)
    page.get_by_label("Save as a DeviceClass named").fill("a100-of-the-test")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("deviceclass a100-of-the-test created")).to_be_visible()
    server.delete(f"{DRA}/deviceclasses/a100-of-the-test")


def test_the_workbench_evaluates_whole_claims(page: Page, server: ConsoleServer) -> None:
    open_console(page, server, "#/cel")
    page.get_by_role("textbox", name="Selector").fill(_A100)
    page.get_by_role("link", name="Use it in a claim").click()
    field = page.get_by_role("textbox", name="A ResourceClaim")
    expect(field).to_have_value(re.compile(re.escape(_A100)))
    text = re.sub("deviceClassName: .*", "deviceClassName: ", field.input_value())
    head, _, tail = text.partition("deviceClassName: ")
    field.fill(f"{head}deviceClassName: ")
    field.press_sequentially("gpu.nv")
    field.press("Enter")
    page.keyboard.insert_text(tail)
    request = page.get_by_role("article", name="Request gpu")
    expect(request).to_contain_text("8 of 40 devices match, 1 wanted")
    expect(request.locator(".clauses li").nth(1)).to_contain_text("true for")
    plan = page.get_by_role("region", name="Allocation")
    expect(plan).to_contain_text("would run on")
    expect(plan.locator("li")).to_have_count(1)
    shoot(page, "claim")
    assert Axe().run(page).violations_count == 0
    field.fill(field.input_value().replace("exactly:", "exactly:\n        count: 9"))
    expect(plan).to_contain_text("would wait")
    expect(plan).to_contain_text("9 wanted, ")
    field.fill(field.input_value().replace("count: 9", "cuont: 1"))
    expect(page.get_by_role("alert")).to_contain_text(
        'unknown field "spec.devices.requests[0].exactly.cuont"'
    )
    field.fill(field.input_value().replace("cuont: 1", "count: 1").replace("my-claim", server.namespace))
    field.fill(field.input_value().replace("namespace: default", f"namespace: {server.namespace}"))
    page.get_by_role("button", name=f"Create it in {server.namespace}").click()
    expect(page.get_by_text(f"resourceclaim {server.namespace} created")).to_be_visible()


def test_past_revisions_are_shown_played_and_compared(page: Page, server: ConsoleServer) -> None:
    open_console(page, server)
    server.claim("train", "true")
    expect(page.get_by_role("button", name="used 2")).to_be_visible()
    page.get_by_role("button", name="Look back").click()
    slider = page.get_by_role("slider", name="Moment")
    slider.focus()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    # Second by second, until the claim is not there yet.
    for _ in range(90):
        before = slider.input_value()
        slider.press("ArrowLeft")
        expect(slider).not_to_have_value(before)
        if _chip(page, "used") == 0:
            break
    expect(page.get_by_role("button", name="used 0")).to_be_visible()
    expect(page.locator("output")).to_contain_text("ago, revision")
    # With 5,000 nodes, a list for each moment would take a second.
    assert any("net=true" in url for url in asked)
    assert not any("pretty=false&limit=" in url for url in asked)
    page.get_by_role("button", name="Compare with this moment").click()
    page.get_by_role("spinbutton", name="Speed").fill("7.5")
    page.get_by_role("spinbutton", name="Speed").press("Enter")
    expect(page.get_by_role("button", name="used 2")).to_be_visible()
    changed = page.locator(".comparison")
    expect(changed).to_contain_text(f"claims {server.namespace} train")
    expect(changed).to_contain_text(re.compile("created|Running"))
    shoot(page, "time")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    # The past can't be changed.
    page.get_by_text("As a table").click()
    page.locator("details.table tbody button").first.click()
    panel = page.get_by_role("complementary", name="Device")
    expect(panel.get_by_text("What if")).to_have_count(0)
    asked.clear()
    page.get_by_role("button", name="Back to now").click()
    expect(panel.get_by_text("What if")).to_be_visible()
    server.claim("later", "true")
    expect(page.get_by_role("button", name="used 4")).to_be_visible()
    assert not any("pretty=false&limit=" in url for url in asked)


def test_the_console_opens_at_the_given_revision(page: Page, server: ConsoleServer, cluster: Path) -> None:
    revision = server.get("/api/v1/nodes")["metadata"]["resourceVersion"]
    server.claim("train", "true")
    command = [sys.executable, "-m", "dra_cli.main", "console", "--no-open", "--data", str(cluster)]
    printed = subprocess.run([*command, "--at", revision], capture_output=True, text=True, check=True)
    page.goto(f"{printed.stdout.strip()}#/fleet")
    expect(page.locator("output")).to_contain_text(f"revision {revision}")
    assert _chip(page, "used") == 0
    page.get_by_role("button", name="Back to now").click()
    expect(page.get_by_role("button", name="used 2")).to_be_visible()
    assert "at=" not in page.url
    page.goto(f"{server.url}/console/?at=nonsense")
    expect(page.get_by_role("alert").first).to_contain_text("nonsense")


def test_a_cluster_of_kubernetes_1_32_is_shown(page: Page, server: ConsoleServer) -> None:
    """Kubernetes 1.32 serves only v1beta1, in which the attributes of a device are below `basic`."""
    server.claim("train", "true")
    gone = re.compile(r"/apis/resource\.k8s\.io/(v1|v1beta2)/")
    page.route(gone, lambda route: route.fulfill(status=404, json={"kind": "Status", "code": 404}))
    open_console(page, server)
    page.get_by_role("button", name="used 2").click()
    page.get_by_text("As a table (2)").click()
    page.locator("details.table tbody button").first.click()
    panel = page.get_by_role("complementary", name="Device")
    expect(panel).to_contain_text("NVIDIA A100-SXM4-40GB")
    panel.get_by_role("button", name=re.compile("^Lose device ")).click()
    expect(panel.locator(".preview")).to_contain_text("1 of 1 pod would be placed, 1 now")
    page.get_by_role("link", name=f"claim {server.namespace}/train").click()
    expect(page.locator(".timeline li.done")).to_have_count(6)


def test_text_of_the_cluster_is_not_rendered_as_html(page: Page, server: ConsoleServer) -> None:
    attack = "<img src=x onerror=document.title='run'>"
    spec = {
        "containers": [{"name": "main", "image": "x", "command": ["sh", "-c", f'echo "{attack}"; sleep 999']}]
    }
    server.create(f"/api/v1/namespaces/{server.namespace}/pods", {"metadata": {"name": "bad"}, "spec": spec})
    open_console(page, server, f"#/pods/{server.namespace}/bad")
    page.get_by_text("Log", exact=True).click()
    expect(page.locator("pre.log")).to_contain_text(attack)
    assert "run" not in page.title()
    policy = httpx.get(f"{server.url}/console/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_choices_in_the_console_are_in_the_url_and_undone_by_the_back_button(
    page: Page, server: ConsoleServer
) -> None:
    open_console(page, server, "#/fleet?colour=class&state=free")
    expect(page.get_by_label("Colour by")).to_have_value("class")
    page.get_by_label("Group by").select_option("own:driver")
    expect(page).to_have_url(re.compile("group=own%3Adriver"))
    page.go_back()
    expect(page.get_by_label("Group by")).to_have_value("")
    page.get_by_text("As a table").click()
    page.locator("details.table tbody button").first.click()
    device = page.get_by_role("complementary", name="Device")
    expect(device).to_be_visible()
    page.reload()
    expect(device).to_be_visible()
    page.go_back()
    expect(device).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_passes_the_axe_checks(browser: Browser, server: ConsoleServer, scheme: Any) -> None:
    server.claim("train", "true")
    server.claim("waits", "false")
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    for view in (
        "",
        "#/pods",
        f"#/pods/{server.namespace}/waits",
        f"#/claims/{server.namespace}/train",
        f"#/pods/{server.namespace}/train?tab=yaml",
        f"#/pods/{server.namespace}/train?tab=history",
        "#/nodes",
        "#/events",
        "#/deployments",
        "#/cel",
    ):
        open_console(page, server, view)
        page.wait_for_load_state("networkidle")
        found = Axe().run(page)
        assert found.violations_count == 0, f"{view}: {found.generate_report()}"
    context.close()


def test_a_narrow_page_needs_no_horizontal_scrolling(browser: Browser, server: ConsoleServer) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    for view in ("", "#/pods", "#/claims", "#/nodes", "#/nodes/node-0", "#/events", "#/cel"):
        open_console(page, server, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, view
    context.close()


def test_the_console_connects_to_any_cluster_by_kubeconfig(
    page: Page, server: ConsoleServer, cluster: Path
) -> None:
    server.claim("waits", "false")
    command = [sys.executable, "-m", "dra_cli.main", "console", "--no-open", "--kubeconfig"]
    with subprocess.Popen(
        [*command, str(Cluster(cluster).kubeconfig)], stdout=subprocess.PIPE, text=True
    ) as serving:
        try:
            assert serving.stdout is not None
            address = serving.stdout.readline().strip()
            base = address.partition("/console")[0]
            assert httpx.get(f"{base}/api/v1/nodes").status_code == 401
            page.goto(address)
            shown = page.get_by_role("banner").get_by_role("status")
            expect(shown).to_have_text(re.compile(r"2 nodes, \d+ devices"))
            page.goto(f"{base}/console/#/pods/{server.namespace}/waits")
            expect(page.get_by_text("What would help:")).to_be_visible()
            # Watches are forwarded, too.
            server.claim("later", "false")
            page.goto(f"{base}/console/#/pods")
            expect(page.get_by_role("link", name=f"{server.namespace}/later")).to_be_visible()
            asked = page.request.post(f"{base}/insight/plan/drain", data={"nodes": ["node-0"]})
            assert asked.json()["moved"] == 0
            refused = page.request.post(f"{base}/api/v1/namespaces", data={"metadata": {"name": "no"}})
            assert (refused.status, "read only" in refused.text()) == (403, True)
        finally:
            serving.terminate()
