import pytest
from dra_shared.version import V1_34, V1_36, VERSIONS, Version


@pytest.mark.parametrize("text", ["1.36", "v1.36", "1.36.2", "v1.36.2"])
def test_a_version_is_read_from_what_people_write(text: str) -> None:
    assert Version.parse(text) == V1_36
    assert str(Version.parse(text)) == "1.36"


@pytest.mark.parametrize("text", ["", "1", "1.33", "1.99", "1.x", "one", "1.36.2.1"])
def test_others_are_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(ValueError, match=r"^unknown Kubernetes version '.*': choose 1\.34, 1\.35, 1\.36"):
        Version.parse(text)


def test_versions_compare_as_numbers() -> None:
    assert V1_34 < V1_36 < (1, 100)
    assert list(VERSIONS) == sorted(VERSIONS)
