"""Worlds and selectors of our own making, and what the real allocator and CEL of Kubernetes 1.36.2 answered."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from dra_scheduler.allocator import conformance as alloc
from dra_shared.cel import conformance as cel

_DATA = Path(__file__).resolve().parent.parent / "data"


def _recorded(name: str) -> list[Any]:
    with gzip.open(_DATA / name, "rb") as file:
        lines = [json.loads(line) for line in file]
    return [pytest.param(line["in"], line["out"], id=line["in"]["name"]) for line in lines]


@pytest.mark.parametrize(("case", "expected"), _recorded("worlds.jsonl.gz"))
def test_world(case: dict[str, Any], expected: dict[str, Any]) -> None:
    ours = alloc.answer(case)
    assert alloc.agrees(ours, expected), f"expected {expected}\ngot      {ours}"


@pytest.mark.parametrize(("case", "expected"), _recorded("expressions.jsonl.gz"))
def test_expression(case: dict[str, Any], expected: dict[str, Any]) -> None:
    ours = cel.answer(case)
    if "evaluationCost" not in expected:
        ours.pop("evaluationCost", None)
    assert ours == expected
