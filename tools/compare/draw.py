"""Random choices that depend only on the seed."""

import random
from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")


class Draw:
    """A source of random choices. Equal seeds make equal choices in all Python versions."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random.random() < probability

    def pick(self, choices: Sequence[_T]) -> _T:
        """Return one of the choices."""
        return choices[self._random.randrange(len(choices))]

    def number(self, least: int, most: int) -> int:
        """Return a number from least to most, both included."""
        return least + self._random.randrange(most - least + 1)

    def sample(self, choices: Sequence[_T], most: int) -> list[_T]:
        """Return up to ``most`` different choices in random order, and at least one."""
        return self._random.sample(choices, self.number(1, min(most, len(choices))))

    def weight(self) -> float:
        """Return a random probability for a feature. It is often zero, so that many worlds lack the feature."""
        return self.pick((0.0, 0.0, 0.1, 0.3, 0.6))
