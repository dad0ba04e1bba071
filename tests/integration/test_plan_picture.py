"""The report that ``dralab plan -o html`` writes, in a real Chromium."""

from pathlib import Path

import pytest
from dra_cli.commandline import run
from playwright.sync_api import Page, expect

from tests.support.chromium import shoot

_PODS = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 3}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  resourceClaims: [{name: gpus, resourceClaimTemplateName: gpus}]
  containers: [{name: main, image: train, resources: {claims: [{name: gpus}]}}]
"""

pytestmark = pytest.mark.slow


def test_an_html_report_of_a_plan_fits_screens_and_paper(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pods.yaml").write_text(_PODS)
    Path("fleet.yaml").write_text("pools: [{name: node, count: 3, gpus: 8xH100-SXM5-80GB, price: 98.5}]\n")
    run("plan", ["fit", "pods.yaml", "--count", "7", "--from", "fleet.yaml", "-o", "html"])
    page.set_viewport_size({"width": 900, "height": 1100})
    page.set_content(capsys.readouterr().out)
    expect(page.locator(".nodes .d.new")).to_have_count(18)
    expect(page.locator(".answer")).to_have_text("No: 6 of 7 pods fit.")
    shoot(page, "plan", prefix="")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    expect(page.locator("details")).to_be_hidden()
