"""Test that docs/architecture.md lists the layers of the API server that import-linter checks."""

import tomllib
from typing import Any

from tests.support.reference import REPOSITORY

_TITLE = "| the API server's floors |"


def _contract(name: str) -> dict[str, Any]:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    found: dict[str, Any] = next(
        one for one in settings["tool"]["importlinter"]["contracts"] if one["name"] == name
    )
    return found


def test_architecture_page_lists_the_api_server_layers_that_import_linter_checks() -> None:
    layers = _contract("The API server's floors")["layers"]
    page = (REPOSITORY / "docs/architecture.md").read_text()
    rows = page.partition(_TITLE)[2].partition("\n\n")[0].splitlines()[2:]
    assert [row.split("|")[1].strip().split(", ") for row in rows] == [layer.split(" | ") for layer in layers]


def test_the_engine_is_a_layer_below_the_kinds() -> None:
    layers = _contract("The API server's floors")["layers"]
    above = {name for layer in layers[: layers.index("kinds")] for name in layer.split(" | ")}
    assert above == {"main", "server", "app", "offline", "verdict"}
