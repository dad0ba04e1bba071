"""The recorded cases in the repository are a sample of the whole tables, and the tool generates them."""

import json

import pytest

from tests.support.reference import reference_path
from tools.recorded import RECORDED, make, sample

_LIMIT = 300 * 1024


@pytest.mark.slow
def test_the_recording_tool_generates_the_files_in_the_repository() -> None:
    vectors = reference_path("vectors")

    assert make(vectors) == {path.name: path.read_text() for path in RECORDED.glob("*.jsonl")}


def test_recorded_cases_in_the_repository_stay_below_300_kib() -> None:
    lines = [line for path in RECORDED.glob("*.jsonl") for line in path.read_text().split("\n") if line]

    assert len(lines) > 200
    assert sum(len(line.encode()) for line in lines) < _LIMIT
    assert all(isinstance(json.loads(line), dict) for line in lines)


def test_a_sample_has_one_case_of_each_topic_before_it_has_a_second_of_any() -> None:
    cases = [{"test": topic, "text": "x" * size} for size in (4000, 3000) for topic in "abc"]

    chosen = [json.loads(line) for line in sample(cases, 11_000)]

    assert [(case["test"], len(case["text"])) for case in chosen] == [("a", 3000), ("b", 3000), ("c", 3000)]
