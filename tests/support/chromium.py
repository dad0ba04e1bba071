"""Debian's Chromium for tests of pages."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.reference import REPOSITORY

PATH = next((path for name in ("chromium-headless-shell", "chromium") if (path := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Return a browser. Without one the test is skipped, but in CI it fails."""
    if PATH is None:
        assert "CI" not in os.environ, "CI has no Chromium"
        pytest.skip("needs Chromium: apt-get install chromium-headless-shell")
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=PATH, args=["--no-sandbox", "--disable-gpu"])


def shoot(page: Page, name: str, prefix: str = "console-") -> None:
    """Take the screenshot ``console-NAME`` of the docs again, if ``DRALAB_SCREENSHOTS`` is set."""
    if os.environ.get("DRALAB_SCREENSHOTS"):
        page.screenshot(path=REPOSITORY / "docs" / "images" / f"{prefix}{name}.png")
