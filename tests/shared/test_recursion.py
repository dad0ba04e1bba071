"""Test the reservation of stack depth by several callers at once."""

import sys
from contextlib import ExitStack

import pytest
from dra_shared.recursion import room


def test_the_recursion_limit_is_raised_and_restored() -> None:
    before = sys.getrecursionlimit()
    with room(before + 1000):
        assert sys.getrecursionlimit() == before + 1000
        with room(before + 10):
            assert sys.getrecursionlimit() == before + 1000
        with pytest.raises(KeyError), room(before + 2000):
            raise KeyError
        assert sys.getrecursionlimit() == before + 1000
    assert sys.getrecursionlimit() == before


def test_the_recursion_limit_is_kept_until_the_last_user_leaves() -> None:
    before = sys.getrecursionlimit()
    first, second = ExitStack(), ExitStack()
    first.enter_context(room(before + 1000))
    second.enter_context(room(before + 1000))
    first.close()
    assert sys.getrecursionlimit() == before + 1000
    second.close()
    assert sys.getrecursionlimit() == before


def test_a_request_for_few_nested_calls_does_not_lower_the_recursion_limit() -> None:
    before = sys.getrecursionlimit()
    with room(10):
        assert sys.getrecursionlimit() == before
