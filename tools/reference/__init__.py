"""The reference pages of the documentation, made from the code: commands, gates, versions of Kubernetes, kinds, Python.

:func:`pages` gives them all; ``tools.site`` adds them to those that are written by hand. Nothing of them is committed.
The tables within pages that are written by hand are in ``tools.reference.tables``.
"""

from collections.abc import Iterator

from tools.reference import commands, gates, kinds, python, versions
from tools.reference.markdown import Page

__all__ = ["Page", "pages"]


def pages() -> Iterator[Page]:
    """All pages, in the order that a table of contents has them."""
    yield commands.page()
    yield gates.page()
    yield from versions.pages()
    yield python.page()
    yield from kinds.pages()
