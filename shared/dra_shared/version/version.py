"""A minor version of Kubernetes (``k8s.io/apimachinery/pkg/util/version``)."""

from typing import NamedTuple


class Version(NamedTuple):
    """A minor version such as 1.36. Versions compare as numbers do."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Parse a version such as 1.36 or v1.36.2.

        Raises:
            ValueError: dralab does not support it.
        """
        numbers = text.removeprefix("v").split(".")
        if len(numbers) in (2, 3) and all(number.isdecimal() for number in numbers):
            found = cls(int(numbers[0]), int(numbers[1]))
            if found in VERSIONS:
                return found
        raise ValueError(f"unknown Kubernetes version {text!r}: choose {', '.join(map(str, VERSIONS))}")

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


V1_34 = Version(1, 34)
V1_35 = Version(1, 35)
V1_36 = Version(1, 36)
V1_37 = Version(1, 37)
# The versions that have a page, oldest first.
VERSIONS = (V1_34, V1_35, V1_36, V1_37)
# The newest.
DEFAULT = V1_37
# Recorded cases that name no version are of 1.36.2.
RECORDED = V1_36
