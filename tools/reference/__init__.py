"""The reference pages of the documentation, made from the code: commands, gates, versions of Kubernetes, kinds, Python.

:func:`pages` returns all of them, and ``tools.site`` adds them to the hand-written pages. They are not
committed. ``tools.reference.tables`` has the tables within hand-written pages.
"""

from collections.abc import Iterator

from tools.reference import commands, gates, kinds, python, versions
from tools.reference.markdown import Page

__all__ = ["Page", "pages"]


def pages() -> Iterator[Page]:
    """Return all pages in the order of the table of contents."""
    yield commands.page()
    yield gates.page()
    yield from versions.pages()
    yield python.page()
    yield from kinds.pages()
