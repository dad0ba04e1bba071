"""Every recorded selector is compiled, estimated and evaluated as the real code did."""

from typing import Any

import pytest
from dra_shared.cel.conformance import agrees, answer
from dra_shared.version import V1_37

from tests.support.cases import check_all
from tests.support.reference import load_vectors

Json = dict[str, Any]


def test_upstream_cases() -> None:
    cases = load_vectors("cel.json.gz")
    check_all(((case["name"], (case, case["actual"])) for case in cases), _check)


def test_random_cases() -> None:
    lines = load_vectors("random-cel.jsonl.gz")
    check_all(((line["in"]["name"], (line["in"], line["out"])) for line in lines), _check)


@pytest.mark.parametrize(
    "name", ["random-cel-1.37.jsonl.gz", "random-cel-features-1.37.jsonl.gz", "upstream-cel-1.37.jsonl.gz"]
)
def test_cases_of_1_37(name: str) -> None:
    lines = [{**line, "in": {"kubernetesVersion": str(V1_37), **line["in"]}} for line in load_vectors(name)]
    check_all(((line["in"]["name"], (line["in"], line["out"])) for line in lines), _check)


def _check(recorded: tuple[Json, Json]) -> None:
    case, expected = recorded
    ours = answer(case)
    assert agrees(ours, expected), f"{case['expression']}\nexpected {expected}\ngot      {ours}"
