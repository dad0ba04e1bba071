"""A seeded sample of random cases, compared with the packages of the newest Kubernetes release."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from dra_shared.version import DEFAULT

from tools.compare.__main__ import SUBJECTS, compare
from tools.compare.upstream import Upstream, build, find_go

_COUNT = 150
# The first build compiles the packages. It has no limit of its own: a busy machine takes minutes.
pytestmark = [pytest.mark.go, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if find_go() is None:
        pytest.skip("Go is not installed; `make compare` builds Kubernetes packages with it")
    try:
        yield build(DEFAULT, tmp_path_factory.mktemp("upstream"))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"the Kubernetes packages cannot be built here: {error}")


@pytest.mark.parametrize("name", SUBJECTS)
def test_sample_of_random_cases_agrees_with_the_real_code(name: str, program: Path) -> None:
    subject = SUBJECTS[name]
    with Upstream(program, name) as upstream:
        cases = [subject.draw(f"sample-{number}", DEFAULT) for number in range(_COUNT)]
        found = [(case, compare(subject, upstream, case, DEFAULT)) for case in cases]

    assert [(case, one) for case, one in found if one.verdict in ("disagree", "crash", "refused")] == []
    assert sum(one.verdict == "agree" for _, one in found) > _COUNT // 2


def test_a_malformed_case_is_rejected(program: Path) -> None:
    case = {"slices": [{"spec": {"devices": [{"capacity": {"mem": {"value": "many"}}}]}}]}
    with Upstream(program, "alloc") as upstream:
        assert compare(SUBJECTS["alloc"], upstream, case, DEFAULT).verdict == "refused"
        # The program continues after a line that it cannot read.
        assert compare(SUBJECTS["alloc"], upstream, {"features": [], "node": {}}, DEFAULT).verdict == "agree"
