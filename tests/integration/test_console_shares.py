"""The console's picture of partially used devices: MIG placements, and shares of a device's memory."""

import re
from pathlib import Path

import pytest
from dra_kube.cluster import Cluster
from playwright.sync_api import Page, expect

from tests.integration.lab import Setup, dralab, on
from tests.support.chromium import shoot
from tests.support.reference import REPOSITORY
from tests.support.waiting import blocking_until

_PARTS = Setup(
    "parts",
    ("gpu.nvidia.com@0", "gpu.example.com:shared@1"),
    nodes=2,
    gpus="8xH100",
    options=("--nvidia-gates", "DynamicMIG=true,TimeSlicingSettings=true"),
)
_MIG = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: mig, namespace: default}
spec:
  devices:
    requests:
    - name: large
      exactly:
        deviceClassName: mig.nvidia.com
        selectors: [{cel: {expression: "device.attributes['gpu.nvidia.com'].profile == '3g.40gb'"}}]
    - name: small
      exactly:
        deviceClassName: mig.nvidia.com
        count: 2
        selectors: [{cel: {expression: "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'"}}]
---
apiVersion: v1
kind: Pod
metadata: {name: mig, namespace: default}
spec:
  resourceClaims: [{name: mig, resourceClaimName: mig}]
  containers:
  - {name: main, image: busybox, command: [sleep, "9999"], resources: {claims: [{name: mig}]}}
"""
# The displayed parts of the board of that name: their names and widths.
_NEAR = """([node, name, scale]) => {
  const { picture } = document.querySelector("canvas");
  const place = picture.plan.places.find((one) => one.node.name === node);
  const index = place.boards.findIndex((board) => board.name.startsWith(name));
  picture.view = { x: place.x + index - 0.1, y: place.y + 0.1, scale };
  picture.fitted = false;
  picture.draw();
  const eighths = (width) => Math.round((8 * width) / scale / 0.86);
  return picture.parts.map(({ name, note, board, width }) => [name, note, board.state, eighths(width)]);
}"""

pytestmark = [pytest.mark.slow, on(_PARTS)]


def test_placements_and_shares_are_drawn_in_their_devices(page: Page, cluster: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "mig.yaml"
    manifest.write_text(_MIG)
    shared = REPOSITORY / "examples" / "consumable-capacity" / "shared-memory.yaml"
    dralab(cluster, "apply", "-f", str(manifest), "-f", str(shared))
    page.goto(f"{Cluster(cluster).record().server}/console/#/fleet")
    # One GPU in parts, and two whose memory is shared.
    expect(page.get_by_role("button", name=re.compile("^used 3$"))).to_be_visible()
    cut = page.locator("article[aria-label='node-0'] .tile.used .bar i")
    expect(cut).to_have_count(3)
    # The GPU has eight places, of which the largest partition takes four.
    widths = cut.evaluate_all("parts => parts.map(part => part.style.width)")
    assert sorted(widths) == ["12.5%", "12.5%", "50%"]
    shoot(page, "cards")
    page.get_by_role("button", name="Map", exact=True).click()
    near = page.evaluate(_NEAR, ["node-0", "gpu-0", 600])
    assert ["mig-3g40gb-9-0", "mig", "used", 4] in near
    assert sum(width for _, note, state, width in near if (note, state) == ("mig", "used")) == 4 + 1 + 1
    assert ["gpu-0", "blocked", "blocked", 8] in near
    assert any(state == "free" and width == 1 for _, _, state, width in near)
    page.evaluate(_NEAR, ["node-0", "gpu-0", 240])
    shoot(page, "placements")
    # Both shares are of one device: three are used before the last pod has its own.
    blocking_until(
        lambda: (
            {"60Gi of memory", "3Gi of memory"}
            <= {name for name, *_ in page.evaluate(_NEAR, ["node-1", "gpu-0", 600])}
        )
    )
    page.get_by_role("button", name="used 3").click()
    page.get_by_text("As a table (3)").click()
    page.locator("details.table tbody tr", has_text="shared-memory/large").get_by_role("button").click()
    panel = page.get_by_role("complementary", name="Device")
    expect(panel).to_contain_text("60Gi of memory")
    page.locator("details.table tbody tr", has_text="default/mig").get_by_role("button").click()
    expect(panel.locator("label.level").first).to_be_visible()
    expect(panel.locator("label.level", has_text="memory-slice-0")).to_contain_text("1 of 1")
