"""The documentation's site as the distribution brings it along, without network, in a real Chromium."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import CHROMIUM, Browser, browser

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(empty: Path) -> Path:
    return next(empty.parent.glob("lib/python*/site-packages/dra_cli/site"))


@pytest.fixture(scope="module")
def url(empty: Path, site: Path) -> Iterator[str]:
    """Where ``dralab docs`` serves it."""
    with subprocess.Popen([empty / "dralab", "docs"], cwd=empty, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split()[0]
        server.terminate()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        assert "CI" not in os.environ, "CI has no Chromium"
        pytest.skip("needs Chromium: tools/browser")
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r'<(?:script|link|img|iframe|source)[^>]* (?:src|href)="?((?:https?:)?//[^">]*)')
    found = {match for path in site.rglob("*.html") for match in loaded.findall(path.read_text())}
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not found
    assert not re.search(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", styles)


def test_what_no_reader_loads_is_left_out(site: Path) -> None:
    assert not [path for path in site.rglob("*") if path.suffix == ".map" or path.name == "wordcut.js"]
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < 6 << 20


def test_a_reader_finds_a_page_by_searching(page: Browser, url: str) -> None:
    page.requests.clear()
    page.visit(url)
    assert page.until("document.querySelector('h1').firstChild.textContent") == "dralab"
    page.visit(f"{url}index.html?q=DRADeviceTaintRules")
    links = "[...document.querySelectorAll('a.md-search-result__link')].map(link => link.href)"
    page.until(f"{links}.length")
    found = page.until(links)
    wanted = f"{url}reference/feature-gates.html"
    page.visit(next(link for link in found if link.startswith(wanted)))
    assert page.until("document.querySelector('h1').firstChild.textContent") == "Feature gates"
    assert not page.errors
    assert {one for one in page.requests if not one.startswith((url, "data:"))} == set()


def test_a_page_may_load_nothing_from_elsewhere(page: Browser, url: str) -> None:
    page.visit(url)
    fetched = "fetch('http://127.0.0.2/').then(() => 'came', error => window.refused = String(error))"
    page.until(f"{fetched} && true")
    assert "Failed to fetch" in page.until("window.refused")
    assert any("Content Security Policy" in error for error in page.errors)
    page.errors.clear()
