import pytest
from dra_shared.version import DEFAULT, PREVIEWS, V1_34, V1_36, VERSIONS, Version, describe_versions

from tests.support.cases import each_case


@pytest.mark.parametrize("text", ["1.36", "v1.36", "1.36.2", "v1.36.2"])
def test_versions_are_parsed_in_common_spellings(text: str) -> None:
    assert Version.parse(text) == V1_36
    assert str(Version.parse(text)) == "1.36"


@each_case("text", ["", "1", "1.33", "1.99", "1.x", "one", "1.36.2.1"])
def test_unknown_versions_are_rejected_with_the_known_ones(text: str) -> None:
    with pytest.raises(ValueError, match=r"^unknown Kubernetes version '.*': choose 1\.34, 1\.35, 1\.36"):
        Version.parse(text)


def test_versions_are_compared_by_number() -> None:
    assert V1_34 < V1_36 < (1, 100)
    assert list(VERSIONS) == sorted(VERSIONS)


def test_previews_are_named_as_such_and_never_the_default() -> None:
    assert DEFAULT not in PREVIEWS
    assert set(PREVIEWS) <= set(VERSIONS)
    assert Version.parse("v1.38.0-beta.0").describe() == "1.38 (a preview)"
    assert describe_versions() == "1.34 to 1.37, 1.38 (a preview)"
