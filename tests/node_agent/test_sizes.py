"""The node agent's functions and modules stay short. ruff holds their complexity."""

import ast
from collections.abc import Iterator
from pathlib import Path

import dra_node_agent

_PACKAGE = Path(dra_node_agent.__file__).parent
_LONGEST_FUNCTION, _LONGEST_MODULE = 60, 600


def _modules() -> Iterator[Path]:
    return (path for path in _PACKAGE.rglob("*.py") if path.parent.name != "proto")


def test_no_function_is_long() -> None:
    functions = [
        (path.name, node.name, node.end_lineno - node.lineno + 1)
        for path in _modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    ]
    assert [entry for entry in functions if entry[2] > _LONGEST_FUNCTION] == []


def test_no_module_is_long() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in _modules()}
    assert {name: length for name, length in lengths.items() if length > _LONGEST_MODULE} == {}
