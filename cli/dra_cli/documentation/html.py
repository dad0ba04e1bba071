"""Render the pages as a plain site, for an installation without MkDocs and without the site of ``make docs``."""

import html
import json
import os
import re
import shutil
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import markdown

from dra_cli.documentation.pages import NAVIGATION

# A link to a page; other links have a scheme or no such suffix.
_PAGE_LINK = re.compile(r'(<a [^>]*href=")([^":#]+)\.md((?:#[^"]*)?")')
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_STYLE = Path(__file__).with_name("style.css")
_SEARCH = Path(__file__).with_name("search.js")
_INDEX = "README"


def build(pages: Path, out: Path) -> None:
    """Render the folder of pages into the folder ``out``."""
    navigation = json.loads((pages / NAVIGATION).read_text())
    texts: list[dict[str, str]] = []
    for path in sorted(pages.rglob("*")):
        place = path.relative_to(pages)
        target = out / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text = path.read_text()
            title = found[1] if (found := _TITLE.search(text)) else place.as_posix()
            address = _address(place.as_posix())
            (out / address).write_text(_render_page(title, _render_markdown(text), navigation, address))
            texts.append({"title": title.replace("`", ""), "address": address, "text": text})
        elif path.is_file() and path.name != NAVIGATION:
            shutil.copyfile(path, target)
    shutil.copyfile(_STYLE, out / "style.css")
    shutil.copyfile(_SEARCH, out / "search.js")
    (out / "pages.js").write_text(f"const pages = {json.dumps(texts)};\n")
    scripts = '<script src="pages.js"></script><script src="search.js"></script>'
    found_pages = f'<h1>Search</h1><div id="found"></div>{scripts}'
    (out / "search.html").write_text(_render_page("Search", found_pages, navigation, "search.html"))


def _address(path: str) -> str:
    """Return the address of a page below the site, as MkDocs has it."""
    stem = path.removesuffix(".md")
    folder, _, name = stem.rpartition("/")
    return f"{folder}/index.html".lstrip("/") if name == _INDEX else f"{stem}.html"


def _render_markdown(text: str) -> str:
    rendered: str = markdown.markdown(
        text,
        extensions=["attr_list", "fenced_code", "sane_lists", "tables", "toc"],
        extension_configs={"toc": {"slugify": _slugify}},
    )
    return _PAGE_LINK.sub(lambda match: f"{match[1]}{_address(match[2] + '.md')}{match[3]}", rendered)


def _slugify(title: str, separator: str) -> str:
    """Return the anchor of a heading as GitHub makes it."""
    kept = re.sub(r"[^\w\- ]", "", unicodedata.normalize("NFC", title))
    return kept.strip().lower().replace(" ", separator)


def _render_page(title: str, body: str, navigation: list[Any], address: str) -> str:
    top = os.path.relpath(".", Path(address).parent) + "/"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{html.escape(title.replace("`", ""))} - dralab</title><link rel="stylesheet" href="{top}style.css"></head>
<body><nav>
<form action="{top}search.html"><input name="q" type="search" placeholder="Search" aria-label="Search"></form>
{"".join(_render_navigation(navigation, top, address))}</nav>
<main>{body}</main></body></html>
"""


def _render_navigation(entries: list[Any], top: str, address: str) -> Iterator[str]:
    yield "<ul>"
    for entry in entries:
        # A page below another has no title of its own.
        ((title, below),) = entry.items() if isinstance(entry, dict) else ((Path(entry).stem, entry),)
        if isinstance(below, str):
            target = _address(below)
            here = ' aria-current="page"' if target == address else ""
            yield f'<li><a href="{top}{target}"{here}>{html.escape(title)}</a></li>'
        else:
            yield f"<li><span>{html.escape(title)}</span>"
            yield from _render_navigation(below, top, address)
            yield "</li>"
    yield "</ul>"
