"""Numbers with their nouns."""

import pytest
from dra_shared.plurals import count


@pytest.mark.parametrize(("number", "text"), [(0, "0 slices"), (1, "1 slice"), (2, "2 slices")])
def test_the_number_one_has_a_singular_noun(number: int, text: str) -> None:
    assert count(number, "slice") == text
