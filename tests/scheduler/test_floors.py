"""The shape of the code: floors as docs/architecture.md draws them, and short functions."""

import ast
import tomllib
from pathlib import Path

_REPOSITORY = Path(__file__).parents[2]
_TITLE = "| the scheduler's floors |"


def test_the_page_has_the_floors_of_the_contract() -> None:
    settings = tomllib.loads((_REPOSITORY / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["name"] == "The scheduler's floors")
    page = (_REPOSITORY / "docs/architecture.md").read_text()
    rows = page.partition(_TITLE)[2].partition("\n\n")[0].splitlines()[2:]
    drawn = [row.split("|")[1].strip().split(", ") for row in rows]
    assert drawn == [layer.split(" | ") for layer in layers]


def test_no_function_is_longer_than_a_page() -> None:
    found = [
        f"{path.name}:{node.lineno} {node.name}"
        for path in (_REPOSITORY / "services/scheduler").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= 60
    ]
    assert not found
