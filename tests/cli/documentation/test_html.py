"""The plain site has the pages, their navigation and a search, and loads nothing from elsewhere."""

import json
import re
from pathlib import Path

import pytest
from dra_cli.documentation.html import build
from dra_cli.documentation.pages import Pages

from tests.support.reference import REPOSITORY


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the pages as rendered without MkDocs."""
    folder = tmp_path_factory.mktemp("plain")
    Pages(REPOSITORY, []).write_with_navigation(folder / "pages")
    build(folder / "pages", folder / "site")
    return folder / "site"


def test_every_link_of_every_page_leads_to_a_file_and_an_anchor(site: Path) -> None:
    texts = {path.resolve(): path.read_text() for path in site.rglob("*.html")}
    anchors = {path: set(re.findall(r' id="([^"]+)"', text)) for path, text in texts.items()}
    wrong = []
    for path, text in texts.items():
        prose = re.sub(r"<code.*?</code>", "", text, flags=re.DOTALL)
        for link in re.findall(r'<(?:a|img|link|script)[^>]* (?:href|src)="([^"]+)"', prose):
            if ":" in link:
                continue
            target, _, anchor = link.partition("#")
            to = (path.parent / target).resolve() if target else path
            if not to.exists() or (anchor and anchor not in anchors.get(to, ())):
                wrong.append((path.relative_to(site.resolve()).as_posix(), link))
    assert not wrong


def test_the_navigation_marks_the_current_page(site: Path) -> None:
    assert '<a href="./tutorial.html" aria-current="page">' in (site / "tutorial.html").read_text()
    below = (site / "controllers" / "index.html").read_text()
    assert '<a href="../controllers/index.html" aria-current="page">' in below
    assert '<link rel="stylesheet" href="../style.css">' in below


def test_tables_and_code_are_rendered(site: Path) -> None:
    text = (site / "stability.html").read_text()
    assert "<table>" in text
    assert re.search(r'<pre><code class="language-sh">', (site / "tutorial.html").read_text())


def test_the_search_index_has_every_page(site: Path) -> None:
    text = (site / "pages.js").read_text()
    pages = json.loads(text.removeprefix("const pages = ").removesuffix(";\n"))
    addresses = {page["address"] for page in pages}
    assert addresses == {path.relative_to(site).as_posix() for path in site.rglob("*.html")} - {"search.html"}
    assert {"title": "Glossary", "address": "glossary.html"}.items() <= pages[
        [page["address"] for page in pages].index("glossary.html")
    ].items()


def test_pages_of_the_plain_site_load_nothing_from_other_servers(site: Path) -> None:
    loaded = re.compile(r'<(?:script|link|img)[^>]* (?:src|href)="((?:https?:)?//[^"]*)')
    assert not {found for path in site.rglob("*.html") for found in loaded.findall(path.read_text())}
