"""The documentation's site in the distribution, without network, in a real Chromium."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

_CHROMIUM = next(
    (path for name in ("chromium-headless-shell", "chromium") if (path := shutil.which(name))), None
)
# The first test builds the files that all of them read.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def site(empty: Path) -> Path:
    return next(empty.parent.glob("lib/python*/site-packages/dra_cli/site"))


@pytest.fixture(scope="module")
def url(empty: Path, site: Path) -> Iterator[str]:
    """Return the URL at which ``dralab docs`` serves the site."""
    with subprocess.Popen(
        [empty / "dralab", "docs", "--no-open"], cwd=empty, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        yield found[0]
        server.terminate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return a browser that cannot reach other machines."""
    if _CHROMIUM is None:
        assert "CI" not in os.environ, "CI has no Chromium"
        pytest.skip("needs Chromium: tools/browser")
    with sync_playwright() as playwright:
        alone = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
        opened = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox", alone])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page()
    yield opened
    opened.close()


def test_pages_of_the_site_load_nothing_from_other_servers(site: Path) -> None:
    loaded = re.compile(r'<(?:script|link|img|iframe|source)[^>]* (?:src|href)="?((?:https?:)?//[^">]*)')
    found = {match for path in site.rglob("*.html") for match in loaded.findall(path.read_text())}
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not found
    assert not re.search(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", styles)


def test_unused_files_of_the_theme_are_left_out(site: Path) -> None:
    assert not [path for path in site.rglob("*") if path.suffix == ".map" or path.name == "wordcut.js"]


def test_the_search_finds_a_page(page: Page, url: str) -> None:
    asked: list[str] = []
    problems: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(url)
    expect(page.locator("h1")).to_have_text("dralab¶")
    page.keyboard.press("s")
    page.keyboard.type("DRADeviceTaintRules")
    page.locator("a.md-search-result__link[href*='reference/feature-gates.html']").first.click()
    expect(page.locator("h1")).to_have_text("Feature gates¶")
    assert problems == []
    assert [one for one in asked if not one.startswith((url, "data:"))] == []


def test_the_content_security_policy_blocks_other_servers(page: Page, url: str) -> None:
    page.goto(url)
    with page.expect_console_message(lambda message: message.type == "error") as refused:
        page.evaluate("fetch('http://127.0.0.2/').catch(() => '')")
    assert "violates the following Content Security Policy directive" in refused.value.text
