"""Samples of cases that take long."""

import os
import random
import subprocess
from collections.abc import Sequence
from typing import TypeVar

from tests.support.reference import REPOSITORY

_VARIABLE = "DRALAB_SAMPLE"
T = TypeVar("T")


def seed() -> str:
    """Return the seed. The workers of pytest-xdist inherit it."""
    if _VARIABLE not in os.environ:
        asked = ["git", "-C", str(REPOSITORY), "rev-parse", "--short", "HEAD"]
        try:
            found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        except FileNotFoundError:
            found = ""
        os.environ[_VARIABLE] = found or "0"
    return os.environ[_VARIABLE]


def either(many: int, few: int) -> int:
    """Return the number of random cases: the larger one if all cases are run."""
    return many if seed() == "all" else few


def sample(things: Sequence[T], count: int) -> list[T]:
    """Return ``count`` of the items in their order, or all of them if there are no more."""
    if seed() == "all" or count >= len(things):
        return list(things)
    places = random.Random(seed()).sample(range(len(things)), count)
    return [things[place] for place in sorted(places)]
