"""Every recorded selector is compiled, estimated and evaluated as the real code did."""

from typing import Any

import pytest
from dra_shared.cel.conformance import agrees, answer

from tests.support.reference import load_vectors


def _upstream() -> list[Any]:
    return [pytest.param(case, case["actual"], id=case["name"]) for case in load_vectors("cel.json.gz")]


def _random() -> list[Any]:
    lines = load_vectors("random-cel.jsonl.gz")
    return [pytest.param(line["in"], line["out"], id=line["in"]["name"]) for line in lines]


@pytest.mark.parametrize(("case", "expected"), _upstream())
def test_upstream_case(case: dict[str, Any], expected: dict[str, Any]) -> None:
    ours = answer(case)
    assert agrees(ours, expected), f"{case['expression']}\nexpected {expected}\ngot      {ours}"


@pytest.mark.parametrize(("case", "expected"), _random())
def test_random_case(case: dict[str, Any], expected: dict[str, Any]) -> None:
    ours = answer(case)
    assert agrees(ours, expected), f"{case['expression']}\nexpected {expected}\ngot      {ours}"
