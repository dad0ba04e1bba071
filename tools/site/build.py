"""Run MkDocs, which converts the pages to HTML. Every warning of MkDocs is a problem."""

import logging
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

# Silence the announcement of Material's authors about MkDocs: it is not a warning about these pages.
os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")

from dra_cli.documentation.pages import Pages
from mkdocs.commands import build as mkdocs
from mkdocs.config import load_config

from tools.reference import Page

_CONFIG = Path(__file__).with_name("mkdocs.yml")


class _Problems(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage())


def build(repository: Path, out: Path, made: Iterable[Page], url: str = "") -> list[str]:
    """Build the site into the folder ``out``. Return the problems of the pages, such as broken links.

    ``made`` are the pages that are generated from the code. ``url`` is the address at which the site will be
    published.
    """
    problems = _Problems()
    log = logging.getLogger("mkdocs")
    log.addHandler(problems)
    try:
        with tempfile.TemporaryDirectory() as folder:
            gathered = Pages(repository, made)
            gathered.write(Path(folder))
            nav = gathered.navigation()
            config = load_config(str(_CONFIG), docs_dir=folder, site_dir=str(out), nav=nav, site_url=url)
            mkdocs.build(config)
    finally:
        log.removeHandler(problems)
    _trim(out)
    return problems.found


def _trim(out: Path) -> None:
    """Remove files that readers never load: source maps of scripts, and search in languages other than English."""
    for path in out.rglob("*.map"):
        path.unlink()
    shutil.rmtree(out / "assets/javascripts/lunr", ignore_errors=True)
