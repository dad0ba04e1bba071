"""Semantic versions in attributes and in CEL, parsed as Kubernetes does (github.com/blang/semver/v4)."""

import functools
from typing import Final

from dra_shared.quoting import go_quote

_DIGITS: Final = frozenset("0123456789")
_ALPHANUMERIC: Final = frozenset("0123456789-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_MAX_UINT64: Final = (1 << 64) - 1


class SemverError(ValueError):
    """The text is not a semantic version. The message is upstream's."""


@functools.total_ordering
class Semver:
    """An immutable version. Build metadata is kept, but ignored by equality and order."""

    __slots__ = ("_key", "build", "major", "minor", "patch", "pre")

    def __init__(
        self,
        major: int,
        minor: int,
        patch: int,
        pre: tuple[int | str, ...] = (),
        build: tuple[str, ...] = (),
    ) -> None:
        self.major = major
        self.minor = minor
        self.patch = patch
        self.pre = pre
        self.build = build
        # No prerelease sorts after every prerelease; numbers sort before words; fewer parts before more.
        words = tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in pre)
        self._key = (major, minor, patch, 0 if pre else 1, words)

    @classmethod
    def parse(cls, text: str) -> "Semver":
        """Parse a strict ``major.minor.patch[-pre][+build]``. Raises SemverError with upstream's message."""
        return _parse_cached(text)

    @classmethod
    def parse_normalized(cls, text: str) -> "Semver":
        """Parse a version after dropping a leading ``v`` and leading zeros, and adding missing parts as ``0``."""
        parts = text.removeprefix("v").split(".", 2)
        for index, part in enumerate(parts):
            if len(part.encode()) > 1:
                stripped = part.lstrip("0")
                parts[index] = stripped if stripped and stripped[0] in _DIGITS else "0" + stripped
        if len(parts) < 3:
            if "+" in parts[-1] or "-" in parts[-1]:
                raise SemverError("short version cannot contain PreRelease/Build meta data")
            parts += ["0"] * (3 - len(parts))
        return cls.parse(".".join(parts))

    def compare(self, other: "Semver") -> int:
        """Return -1, 0 or 1."""
        return (self._key > other._key) - (self._key < other._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._key == other._key

    def __lt__(self, other: "Semver") -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.pre:
            text += "-" + ".".join(map(str, self.pre))
        if self.build:
            text += "+" + ".".join(self.build)
        return text

    def __repr__(self) -> str:
        return f"Semver.parse({str(self)!r})"


def _number(text: str) -> int:
    value = int(text) if text and len(text) <= 40 else _MAX_UINT64 + 1
    if not text:
        raise SemverError('strconv.ParseUint: parsing "": invalid syntax')
    if value > _MAX_UINT64:
        raise SemverError(f"strconv.ParseUint: parsing {go_quote(text)}: value out of range")
    return value


def _component(name: str, text: str) -> int:
    if not _DIGITS.issuperset(text):
        raise SemverError(f"Invalid character(s) found in {name} number {go_quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise SemverError(f"{name.capitalize()} number must not contain leading zeroes {go_quote(text)}")
    return _number(text)


def _prerelease(text: str) -> int | str:
    if not text:
        raise SemverError("Prerelease is empty")
    if _DIGITS.issuperset(text):
        if len(text) > 1 and text[0] == "0":
            raise SemverError(f"Numeric PreRelease version must not contain leading zeroes {go_quote(text)}")
        return _number(text)
    if not _ALPHANUMERIC.issuperset(text):
        raise SemverError(f"Invalid character(s) found in prerelease {go_quote(text)}")
    return text


@functools.lru_cache(maxsize=4096)
def _parse_cached(text: str) -> Semver:
    if not text:
        raise SemverError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise SemverError("No Major.Minor.Patch elements found")
    major = _component("major", parts[0])
    minor = _component("minor", parts[1])
    rest, plus, build_text = parts[2].partition("+")
    patch_text, dash, pre_text = rest.partition("-")
    patch = _component("patch", patch_text)
    pre = tuple(_prerelease(part) for part in pre_text.split(".")) if dash else ()
    build = tuple(build_text.split(".")) if plus else ()
    for part in build:
        if not part:
            raise SemverError("Build meta data is empty")
        if not _ALPHANUMERIC.issuperset(part):
            raise SemverError(f"Invalid character(s) found in build meta data {go_quote(part)}")
    return Semver(major, minor, patch, pre, build)
