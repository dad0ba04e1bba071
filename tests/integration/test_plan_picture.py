"""The page that ``dralab plan -o html`` writes, in a real Chromium."""

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


def test_the_picture_shows_where_pods_would_get_their_devices(
    page: Page, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = tmp_path / "pods.yaml"
    pods.write_text(_PODS)
    words = ["fit", str(pods), "--count", "7", "--nodes", "3", "--gpus", "8xH100-SXM5-80GB", "-o", "html"]
    run("plan", words)
    page.set_viewport_size({"width": 900, "height": 560})
    page.set_content(capsys.readouterr().out)
    expect(page.locator("tbody .d.new")).to_have_count(18)
    expect(page.locator("pre")).to_contain_text("6 of 7")
    shoot(page, "plan", prefix="")
