"""Our own worlds and selectors, with recorded answers of the real allocator and CEL of Kubernetes 1.36.2."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from dra_recordings import alloc, cel
from dra_shared.jsontypes import JsonObject

from tests.support.cases import check_all

_DATA = Path(__file__).resolve().parent.parent / "data"


def _read_lines(name: str) -> Iterator[tuple[str, JsonObject]]:
    with gzip.open(_DATA / name, "rb") as file:
        for line in map(json.loads, file):
            yield line["in"]["name"], line


def test_allocations_in_recorded_worlds_agree_with_upstream() -> None:
    check_all(_read_lines("worlds.jsonl.gz"), _check_world)


def _check_world(line: JsonObject) -> None:
    ours = alloc.answer(line["in"])
    assert alloc.agrees(ours, line["out"]), f"expected {line['out']}\ngot      {ours}"


def test_recorded_expressions_have_the_results_of_upstream() -> None:
    check_all(_read_lines("expressions.jsonl.gz"), _check_expression)


def _check_expression(line: JsonObject) -> None:
    ours, expected = cel.answer(line["in"]), line["out"]
    if "evaluationCost" not in expected:
        ours.pop("evaluationCost", None)
    assert ours == expected
