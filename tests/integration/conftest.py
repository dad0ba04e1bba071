"""Clusters that the tests of a module share."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page, Request, expect

from tests.integration.lab import Lab, Setup, lab
from tests.support.chromium import chromium

_LOCAL = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:")
# A busy machine starts pods slowly.
expect.set_options(timeout=40_000)


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Path]:
    setup: Setup = request.param
    # Below /tmp, because a unix socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="d", dir="/tmp") as folder:
        setup.start(Path(folder))
        yield Path(folder)
        setup.stop(Path(folder))


@pytest.fixture
async def house(cluster: Path) -> AsyncIterator[Lab]:
    async with lab(cluster) as house:
        yield house
        await house.clear()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return a page that fails the test if it loads a URL from elsewhere or raises an error."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    made = context.new_page()
    problems: list[str] = []

    def record_error(error: Error) -> None:
        problems.append(str(error))

    def check_request(request: Request) -> None:
        if not request.url.startswith(_LOCAL):
            problems.append(request.url)

    made.on("pageerror", record_error)
    made.on("request", check_request)
    yield made
    context.close()
    assert problems == []
