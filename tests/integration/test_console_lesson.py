"""A lesson in a real Chromium, with the cluster that it starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.support.chromium import shoot

pytestmark = pytest.mark.slow


def test_a_lesson_is_solved_in_the_browser_with_the_keyboard(page: Page, tmp_path: Path) -> None:
    program = [sys.executable, "-m", "dra_cli.main", "learn"]
    environment = {**os.environ, "DRALAB_LEARN": str(tmp_path)}
    command = [*program, "1", "--console", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as serving:
        try:
            assert serving.stdout is not None
            viewport = page.viewport_size
            assert viewport is not None
            page.goto(next(line for line in serving.stdout if line.startswith("http")))
            expect(page.get_by_role("heading", name="Your first claim")).to_be_visible()
            for width, height in ((1440, 900), (1024, 700)):
                page.set_viewport_size({"width": width, "height": height})
                for goal in page.locator(".goals li").all():
                    expect(goal).to_be_in_viewport(ratio=1)
            page.set_viewport_size(viewport)
            page.get_by_role("button", name="Check").press("Enter")
            expect(page.get_by_text("lists no claims in spec.resourceClaims")).to_be_visible()
            page.get_by_role("button", name="Hint").press("Enter")
            expect(page.get_by_text("Hint 1", exact=True)).to_be_visible()
            page.get_by_role("button", name="Solution").press("Enter")
            solution = page.locator("details pre").inner_text()
            field = page.get_by_label("Your file")
            field.fill(
                solution.replace("- name: gpu\n    resourceClaimName", "- name: my\n    resourceClaimName")
            )
            field.press("Control+Enter")
            expect(page.get_by_text('Pod "first" is invalid')).to_be_visible()
            field.fill(solution)
            field.press("Control+Enter")
            expect(page.get_by_role("heading", name="Solved")).to_be_visible()
            expect(page.locator(".goals .free")).to_have_count(3)
            expect(page.get_by_role("button", name="1 Your first claim ✓ solved")).to_be_visible()
            shoot(page, "lesson")
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
            assert (tmp_path / "01-first-claim.yaml").read_text() == solution
        finally:
            serving.terminate()
            subprocess.run([*program, "stop"], env=environment, check=True)
