"""A seeded sample of random cases, compared with the packages of the newest Kubernetes release."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from dra_shared.version import DEFAULT

from tests.support.sampling import either, sample, seed
from tools.compare.__main__ import SUBJECTS, compare
from tools.compare.upstream import Upstream, build, find_go

# Of 150 cases, a run of the tests tries so many.
_COUNT = either(150, few=60)
# Linking the kubelet takes as long as all other subjects together.
_NAMES = [name for name, one in SUBJECTS.items() if one.program != "kubelet" or seed() == "all"]
# The first build compiles the packages. It has no limit of its own: a busy machine takes minutes.
pytestmark = [pytest.mark.go, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that builds a program, and skips the test if that is impossible."""
    if find_go() is None:
        pytest.skip("Go is not installed; `make compare` builds Kubernetes packages with it")
    folder = tmp_path_factory.mktemp("upstream")

    def build_program(name: str) -> Path:
        try:
            return build(DEFAULT, folder, name)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"the Kubernetes packages cannot be built here: {error}")

    return build_program


@pytest.mark.parametrize("name", _NAMES)
def test_sample_of_random_cases_agrees_with_the_real_code(name: str, programs: Callable[[str], Path]) -> None:
    subject = SUBJECTS[name]
    with Upstream(programs(subject.program), name) as upstream:
        cases = [subject.draw(f"sample-{number}", DEFAULT) for number in sample(range(150), _COUNT)]
        found = [(case, compare(subject, upstream, case, DEFAULT)) for case in cases]

    assert [(case, one) for case, one in found if one.verdict in ("disagree", "crash")] == []
    # A mutation may make an object of `validate` that cannot be stored at all.
    refused = sum(one.verdict == "refused" for _, one in found)
    assert refused <= (2 if name == "validate" else 0)
    assert sum(one.verdict == "agree" for _, one in found) > _COUNT // 2


def test_a_malformed_case_is_rejected(programs: Callable[[str], Path]) -> None:
    case = {"slices": [{"spec": {"devices": [{"capacity": {"mem": {"value": "many"}}}]}}]}
    with Upstream(programs("upstream"), "alloc") as upstream:
        assert compare(SUBJECTS["alloc"], upstream, case, DEFAULT).verdict == "refused"
        # The program continues after a line that it cannot read.
        assert compare(SUBJECTS["alloc"], upstream, {"features": [], "node": {}}, DEFAULT).verdict == "agree"
