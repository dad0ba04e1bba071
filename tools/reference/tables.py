"""The tables of the pages in ``docs/`` that are made from the code.

A page has such a table between ``<!-- generated: NAME -->`` and ``<!-- end -->``. ``make reference`` writes
all of them again, and ``tests/docs/test_tables.py`` fails if a table is outdated.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tools.reference import catalogs, commands, depth, gates, limits, metrics, services, states, versions

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"<!-- generated: (.+?) -->\n(.*?)<!-- end -->", re.DOTALL)

TABLES: Mapping[str, Callable[[], str]] = {
    "commands": commands.overview,
    "dralab up": commands.options_of_up,
    **services.tables(),
    "feature gates": gates.table_of_gates,
    **metrics.tables(),
    "kinds": depth.table,
    "kinds without a service": depth.reasons,
    "versions": versions.table_of_versions,
    "limits": limits.limits,
    **states.TABLES,
    **catalogs.tables(),
}


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the content of each generated block in a page's text."""
    for match in _BLOCK.finditer(text):
        yield match[1], match[2]


def render(text: str) -> str:
    """Return a page's text with all generated blocks updated.

    Raises:
        KeyError: a block has the name of no table.
    """
    return _BLOCK.sub(lambda match: f"<!-- generated: {match[1]} -->\n{_table(match[1])}<!-- end -->", text)


def pages() -> list[Path]:
    """Return the files of ``docs/`` that have generated blocks."""
    return sorted(path for path in (ROOT / "docs").rglob("*.md") if "<!-- generated: " in path.read_text())


def write() -> list[Path]:
    """Write the generated blocks of all pages again. Return the pages that changed."""
    changed = []
    for path in pages():
        text = path.read_text()
        if (new := render(text)) != text:
            path.write_text(new)
            changed.append(path)
    return changed


def _table(name: str) -> str:
    return TABLES[name]().strip("\n") + "\n"
