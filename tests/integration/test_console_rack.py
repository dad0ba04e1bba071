"""The console's picture of NVLink racks and of a compute domain in one of them."""

import re
from pathlib import Path

import pytest
from dra_kube.cluster import Cluster
from playwright.sync_api import Page, expect

from tests.integration.lab import Setup, dralab, on
from tests.support.chromium import shoot
from tests.support.reference import REPOSITORY

_RACKS = Setup("racks", (), nodes=36, gpus="4xGB200")

pytestmark = [pytest.mark.slow, on(_RACKS)]


def test_nodes_are_grouped_by_their_rack(page: Page, cluster: Path) -> None:
    dralab(cluster, "apply", "-f", str(REPOSITORY / "examples" / "compute-domain"))
    dralab(cluster, "wait", "--for=condition=Ready", "-n", "compute-domain", "pod/worker-0", "pod/worker-1")
    page.set_viewport_size({"width": 1400, "height": 800})
    page.goto(f"{Cluster(cluster).record().server}/console/#/fleet")
    # Four GPUs, a channel and a daemon on each of two nodes.
    expect(page.get_by_role("button", name=re.compile("^used 12$"))).to_be_visible()
    expect(
        page.get_by_role("heading", name=re.compile("^NVLink domain .* 18 nodes · 72 devices"))
    ).to_have_count(2)
    shoot(page, "rack")
    page.get_by_label("Group by").select_option("label:nvidia.com/gpu.clique")
    expect(page.locator(".group")).to_have_count(2)
