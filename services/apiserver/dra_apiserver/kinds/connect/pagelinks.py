"""Rewrite links in proxied responses so that links to the target lead through the proxy (apimachinery's
`proxy.Transport`).
"""

from __future__ import annotations

import html
import itertools
import posixpath
from collections.abc import Callable
from html.parser import HTMLParser
from urllib.parse import urlsplit, urlunsplit

_ATTRIBUTES = {
    "a": {"href"},
    "applet": {"codebase"},
    "area": {"href"},
    "audio": {"src"},
    "base": {"href"},
    "blockquote": {"cite"},
    "body": {"background"},
    "button": {"formaction"},
    "command": {"icon"},
    "del": {"cite"},
    "embed": {"src"},
    "form": {"action"},
    "frame": {"longdesc", "src"},
    "head": {"profile"},
    "html": {"manifest"},
    "iframe": {"longdesc", "src"},
    "img": {"longdesc", "src", "usemap"},
    "input": {"src", "usemap", "formaction"},
    "ins": {"cite"},
    "link": {"href"},
    "object": {"classid", "codebase", "data", "usemap"},
    "q": {"cite"},
    "script": {"src"},
    "source": {"src"},
    "video": {"poster", "src"},
}

Rewrite = Callable[[str], str]


def rewrite_url(url: str, hosts: tuple[str, str], prefix: str) -> str:
    """Prepend the proxy's path to a link's path, if that is absolute and the link leads to one of these hosts,
    or to none.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    if (parts.netloc and parts.netloc not in hosts) or not parts.path.startswith("/"):
        return url
    # The client knows this server by another name, so the link gets neither scheme nor host.
    scheme, host = ("", "") if parts.netloc != hosts[1] else (parts.scheme, parts.netloc)
    path = parts.path
    if not path.startswith(prefix):
        path = posixpath.normpath(f"{prefix}/{path.lstrip('/')}")
        if parts.path.endswith("/"):
            path += "/"
    return urlunsplit((scheme, host, path, parts.query, parts.fragment))


class _Page(HTMLParser):
    def __init__(self, text: str, rewrite: Rewrite) -> None:
        super().__init__(convert_charrefs=False)
        self._rewrite = rewrite
        # The parser only counts "\n" as the end of a line.
        self._starts = [0, *itertools.accumulate(len(line) + 1 for line in text.split("\n"))]
        self.changes: list[tuple[int, int, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        wanted = _ATTRIBUTES.get(tag, set())
        made = [
            (name, self._rewrite(value) if name in wanted and value is not None else value)
            for name, value in attrs
        ]
        raw = self.get_starttag_text()
        if made == attrs or raw is None:
            return
        words = [name if value is None else f'{name}="{html.escape(value)}"' for name, value in made]
        line, column = self.getpos()
        start = self._starts[line - 1] + column
        end = "/>" if raw.endswith("/>") else ">"
        self.changes.append((start, start + len(raw), f"<{' '.join([tag, *words])}{end}"))


def rewrite_page(text: str, rewrite: Rewrite) -> str:
    """Return the page with `rewrite` applied to each link, and otherwise unchanged."""
    page = _Page(text, rewrite)
    page.feed(text)
    pieces, done = [], 0
    for start, end, tag in page.changes:
        pieces += [text[done:start], tag]
        done = end
    return "".join([*pieces, text[done:]])
