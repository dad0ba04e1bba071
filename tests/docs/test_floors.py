"""The layers in docs/architecture.md are those that import-linter checks."""

import tomllib

from tests.support.reference import REPOSITORY

_TITLE = "| the floors of the products |"


def test_architecture_page_lists_the_layers_that_import_linter_checks() -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["name"] == "The floors of the products")
    page = (REPOSITORY / "docs/architecture.md").read_text()
    rows = page.partition(_TITLE)[2].partition("\n\n")[0].splitlines()[2:]
    drawn = [row.split("|")[1].strip().split(", ") for row in rows]
    assert drawn == [layer.split(" | ") for layer in layers]
