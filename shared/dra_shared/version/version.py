"""A minor version of Kubernetes (``k8s.io/apimachinery/pkg/util/version``)."""

from typing import NamedTuple


class Version(NamedTuple):
    """A minor version such as 1.36. Versions compare as numbers do."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Parse a version such as 1.36, v1.36.2 or v1.38.0-beta.0.

        Raises:
            ValueError: dralab does not support it.
        """
        numbers = text.removeprefix("v").partition("-")[0].split(".")
        if len(numbers) in (2, 3) and all(number.isdecimal() for number in numbers):
            found = cls(int(numbers[0]), int(numbers[1]))
            if found in VERSIONS:
                return found
        raise ValueError(f"unknown Kubernetes version {text!r}: choose {', '.join(map(str, VERSIONS))}")

    @property
    def is_preview(self) -> bool:
        """True if Kubernetes has not released this version."""
        return self in PREVIEWS

    def describe(self) -> str:
        """Return the version as users read it: 1.37, or 1.38 (a preview)."""
        return f"{self} (a preview)" if self.is_preview else str(self)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


V1_34 = Version(1, 34)
V1_35 = Version(1, 35)
V1_36 = Version(1, 36)
V1_37 = Version(1, 37)
V1_38 = Version(1, 38)
# The versions that have a page, oldest first.
VERSIONS = (V1_34, V1_35, V1_36, V1_37, V1_38)
# The newest that is released.
DEFAULT = V1_37
# Followed as far as upstream has merged them. They change until their release.
PREVIEWS = (V1_38,)
# Recorded cases that name no version are of 1.36.2.
RECORDED = V1_36


def describe_versions() -> str:
    """Return the versions in words, for the help of options."""
    released = [version for version in VERSIONS if not version.is_preview]
    return ", ".join([f"{released[0]} to {released[-1]}", *(version.describe() for version in PREVIEWS)])
