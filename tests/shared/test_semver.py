"""Test that semantic versions are parsed and compared as blang/semver does."""

import itertools

import pytest
from dra_shared.semver import Semver, SemverError

from tests.support.cases import each_case


@pytest.mark.parametrize("text", ["1.2.3", "0.0.0", "1.2.3-beta.1", "1.2.3-x-y.7+build.5", "1.2.3+001"])
def test_semantic_versions_are_formatted_as_they_were_parsed(text: str) -> None:
    assert str(Semver.parse(text)) == text


@each_case(
    ("text", "message"),
    [
        ("", "Version string empty"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("v1.2.3", 'Invalid character(s) found in major number "v1"'),
        ("01.2.3", 'Major number must not contain leading zeroes "01"'),
        ("1.02.3", 'Minor number must not contain leading zeroes "02"'),
        ("1.2.x", 'Invalid character(s) found in patch number "x"'),
        ("1..3", 'strconv.ParseUint: parsing "": invalid syntax'),
        (
            "99999999999999999999.0.0",
            'strconv.ParseUint: parsing "99999999999999999999": value out of range',
        ),
        ("1.2.3-", "Prerelease is empty"),
        ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("1.2.3-a_b", 'Invalid character(s) found in prerelease "a_b"'),
        ("1.2.3+", "Build meta data is empty"),
    ],
)
def test_invalid_versions_are_rejected(text: str, message: str) -> None:
    with pytest.raises(SemverError) as caught:
        Semver.parse(text)
    assert str(caught.value) == message


def test_versions_sort_by_precedence() -> None:
    ordered = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0",
        "1.0.1",
        "1.10.0",
        "2.0.0",
    ]
    versions = [Semver.parse(text) for text in ordered]
    assert sorted(versions) == versions
    assert [a.compare(b) for a, b in itertools.pairwise(versions)] == [-1] * 9
    assert Semver.parse("1.0.0+a") == Semver.parse("1.0.0+b")


@pytest.mark.parametrize(
    ("text", "normalized"),
    [("v1.2", "1.2.0"), ("1", "1.0.0"), ("01.02.03", "1.2.3"), ("v1.2.03-rc.1", "1.2.3-rc.1")],
)
def test_versions_are_normalized(text: str, normalized: str) -> None:
    assert str(Semver.parse_normalized(text)) == normalized


def test_normalization_rejects_a_prerelease_of_a_version_with_missing_numbers() -> None:
    with pytest.raises(SemverError, match="short version cannot contain"):
        Semver.parse_normalized("1.2-rc")
