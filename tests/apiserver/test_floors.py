"""docs/architecture.md draws the engine's floors, which import-linter checks."""

import tomllib
from pathlib import Path
from typing import Any

import dra_apiserver

from tests.support.reference import REPOSITORY

_TITLE = "| the engine's floors |"


def _contract(name: str) -> dict[str, Any]:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    found: dict[str, Any] = next(
        one for one in settings["tool"]["importlinter"]["contracts"] if one["name"] == name
    )
    return found


def _modules(folder: Path) -> set[str]:
    return {
        path.stem
        for path in folder.iterdir()
        if path.stem != "__init__" and (path.suffix == ".py" or (path / "__init__.py").exists())
    }


def test_the_page_has_the_floors_of_the_contract() -> None:
    layers = _contract("The API server's floors")["layers"]
    page = (REPOSITORY / "docs/architecture.md").read_text()
    rows = page.partition(_TITLE)[2].partition("\n\n")[0].splitlines()[2:]
    assert [row.split("|")[1].strip().split(", ") for row in rows] == [layer.split(" | ") for layer in layers]


def test_the_whole_engine_is_kept_from_the_rooms() -> None:
    engine = Path(dra_apiserver.__file__).parent
    contract = _contract("The API server's engine imports no room of kinds")
    # What builds a server, or does without one, imports the catalog of all rooms.
    catalog = "from dra_apiserver.kinds import catalog\n"
    wired = {path.stem for path in engine.glob("*.py") if catalog in path.read_text()}
    assert "server" in wired
    sources = {name.removeprefix("dra_apiserver.") for name in contract["source_modules"]}
    assert sources == _modules(engine) - {"kinds"} - wired
    forbidden = {name.removeprefix("dra_apiserver.kinds.") for name in contract["forbidden_modules"]}
    assert forbidden == _modules(engine / "kinds") - {"common", "kind", "names", "strategy"}
