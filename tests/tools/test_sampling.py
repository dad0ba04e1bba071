"""Tests of tests/support/sampling.py."""

import os

import pytest

from tests.support import sampling


def test_equal_seeds_choose_equal_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRALAB_SAMPLE", "7")
    chosen = sampling.sample(range(100), 5)
    assert chosen == sampling.sample(range(100), 5) == sorted(chosen)
    monkeypatch.setenv("DRALAB_SAMPLE", "8")
    assert chosen != sampling.sample(range(100), 5)


def test_the_all_option_chooses_every_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRALAB_SAMPLE", "all")
    assert sampling.sample("abc", 2) == ["a", "b", "c"]


def test_a_sample_of_few_items_has_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRALAB_SAMPLE", "7")
    assert sampling.sample("abc", 5) == ["a", "b", "c"]


def test_the_seed_is_passed_to_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRALAB_SAMPLE", raising=False)
    seed = sampling.seed()
    assert os.environ["DRALAB_SAMPLE"] == seed
