import pytest
from dra_controller.job.indexes import parse_indexes, text_of


@pytest.mark.parametrize(
    ("text", "indexes"),
    [("", set()), ("1", {1}), ("1,3-5", {1, 3, 4, 5}), ("0,2,7-9", {0, 2, 7, 8, 9}), ("1,2", {1, 2})],
)
def test_completed_indexes_of_a_job_are_parsed_and_formatted(text: str, indexes: set[int]) -> None:
    assert parse_indexes(text) == indexes
    assert text_of(indexes) == text


def test_invalid_text_in_the_completed_indexes_of_a_job_is_ignored() -> None:
    assert parse_indexes("1,x,3-y,5") == {1, 5}
