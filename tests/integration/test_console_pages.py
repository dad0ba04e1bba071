"""The console's lists, objects, search and keys in a real Chromium, on a cluster without devices."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from dra_kube.cluster import Cluster
from playwright.sync_api import Page, expect

from tests.integration.consoleserver import ConsoleServer, open_console
from tests.integration.lab import Setup, on

pytestmark = [pytest.mark.slow, on(Setup("console-pages", ("none",)))]


@pytest.fixture
def server(cluster: Path) -> Iterator[ConsoleServer]:
    made = ConsoleServer(Cluster(cluster).record().server)
    yield made
    made.close()


def test_objects_are_found_edited_and_left_by_keyboard(page: Page, server: ConsoleServer) -> None:
    path = f"/api/v1/namespaces/{server.namespace}/configmaps"
    server.create(path, {"metadata": {"name": "notes"}, "data": {"colour": "green"}})
    open_console(page, server, "#/pods")
    page.keyboard.press("/")
    page.keyboard.type(f"{server.namespace} notes")
    expect(page.get_by_role("option", name=f"ConfigMap {server.namespace}/notes")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=f"ConfigMap {server.namespace}/notes")).to_be_visible()
    page.keyboard.press("y")
    text = page.get_by_label("YAML", exact=True)
    expect(text).to_contain_text("colour: green")
    expect(text).not_to_contain_text("managedFields:")
    page.keyboard.press("e")
    text = page.get_by_role("textbox", name="YAML")
    text.fill(text.input_value().replace("green", "blue"))
    page.get_by_role("button", name="Try it").click()
    expect(page.locator(".diff .old")).to_have_text(re.compile("- +colour: green"))
    expect(page.locator(".diff .new")).to_have_text(re.compile("[+] +colour: blue"))
    # So far the change was only a dry run.
    assert server.get(f"{path}/notes")["data"] == {"colour": "green"}
    page.get_by_role("button", name="Write it").click()
    expect(page.get_by_role("button", name="Edit")).to_be_visible()
    assert server.get(f"{path}/notes")["data"] == {"colour": "blue"}
    page.keyboard.press("h")
    expect(page.locator(".history")).to_contain_text("green → blue")
    page.go_back()
    expect(text).to_have_count(0)
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="ConfigMaps")).to_be_visible()
    page.keyboard.press(":")
    page.keyboard.type(f"po {server.namespace}")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"#/pods\?ns={server.namespace}$"))


def test_the_effect_of_more_replicas_is_planned_before_they_are_created(
    page: Page, server: ConsoleServer
) -> None:
    labels = {"app": "web"}
    container = {"name": "main", "image": "busybox", "command": ["sleep", "3600"]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    path = f"/apis/apps/v1/namespaces/{server.namespace}/deployments"
    server.create(path, {"metadata": {"name": "web"}, "spec": spec})
    open_console(page, server, f"#/deployments/{server.namespace}/web")
    page.get_by_role("spinbutton", name="Replicas").fill("2")
    page.get_by_role("button", name="Plan it").click()
    expect(page.locator(".preview")).to_contain_text("2 of 2 new pods would be placed")
    assert server.pods() == []
    page.get_by_role("button", name="Scale to 2 now").click()
    expect(page.get_by_role("region", name="Its pods").locator("li")).to_have_count(2)


def test_the_console_reports_a_server_that_does_not_respond(page: Page, server: ConsoleServer) -> None:
    open_console(page, server, "#/pods")
    page.route("**/version", lambda route: route.abort())
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    page.unroute("**/version")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_manifest_is_dry_run_and_planned_before_it_is_created(page: Page, server: ConsoleServer) -> None:
    open_console(page, server, f"#/create?ns={server.namespace}")
    page.get_by_role("button", name="Try it").click()
    preview = page.locator(".preview")
    expect(preview).to_contain_text("Pod my-pod would be created")
    expect(preview).to_contain_text("1 of 1 new pod would be placed")
    assert server.pods() == []
    page.get_by_role("button", name="Create now").click()
    page.get_by_role("link", name="Pod my-pod").click()
    expect(page.get_by_role("heading", name=f"Pod {server.namespace}/my-pod")).to_be_visible()
