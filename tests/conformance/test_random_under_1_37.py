"""Allocations recorded with 1.36.2, computed as 1.37. A known change of 1.37 explains each one that differs."""

import dataclasses
from typing import Any

import pytest
from dra_recordings import comparison as conformance
from dra_scheduler.allocator.features import Features
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36

from tests.support.reference import load_vectors
from tests.support.sampling import sample

# The changes that the recorded worlds meet, by the property that has them. Upstream has them below
# structured/internal/experimental: selectorsMatch and rollbackDevice in allocator_experimental.go
# (kubernetes/kubernetes#136709, #140437, #140431, #139040), GatherPools in pools_experimental.go, and PoolID as the
# key in checkAvailableCounters (#140435).
_REASONS = {
    "errors_name_the_device": {
        *("w2", "w3", "w15", "w49", "w129", "w150", "w206", "w214", "w260", "w265", "w441", "w516", "w538"),
        *(
            "w635",
            "w782",
            "w860",
            "w863",
            "w948",
            "w962",
            "w966",
            "w1041",
            "w1083",
            "w1087",
            "w1144",
            "w1189",
        ),
        *("w1356", "w1381", "w1387", "w1439", "w1459", "w1493", "w1582", "w1629", "w1835", "w1842", "w1993"),
    },
    "takes_all_back": {
        *("w147", "w175", "w389", "w436", "w1029", "w1063", "w1143", "w1172", "w1376", "w1416", "w1680"),
        *("w1710", "w1820"),
    },
    "counter_sets_have_nodes": {"w468", "w636"},
    "counters_have_drivers": {"w38"},
}


def _names_that_differ(lines: list[JsonObject]) -> set[str]:
    alloc = conformance.subject("alloc")
    return {
        line["in"]["name"]
        for line in lines
        if not any(
            alloc.agrees(alloc.answer({**line["in"], "kubernetesVersion": "1.37"}), out)
            for out in conformance.outcomes(line)
        )
    }


def _as_in_1_36(name: str) -> property:
    """Return the property ``name``, as if the version were 1.36."""
    since = getattr(Features, name)

    def get(self: Features) -> Any:
        return since.fget(dataclasses.replace(self, kubernetes=V1_36))

    return property(get)


def test_each_allocation_that_differs_in_1_37_is_explained_by_one_known_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = sample(load_vectors("random-alloc.jsonl.gz"), 700)
    names = {line["in"]["name"] for line in lines}
    differing = _names_that_differ(lines)
    assert differing == names & set().union(*_REASONS.values())
    for reason, worlds in _REASONS.items():
        with monkeypatch.context() as patched:
            patched.setattr(Features, reason, _as_in_1_36(reason))
            left = _names_that_differ([line for line in lines if line["in"]["name"] in differing])
        assert differing - left == names & worlds, reason


@pytest.mark.parametrize("subject", ["cel", "validate"])
def test_expressions_and_objects_are_answered_as_in_1_36(subject: str) -> None:
    about = conformance.subject(subject)
    lines = sample(load_vectors(f"random-{subject}.jsonl.gz"), 700)
    differing = [
        line["in"]["name"]
        for line in lines
        # Since 1.37 these cost as much as the affix has; tests of shared/cel have the costs.
        if not any(affix in line["in"].get("expression", "") for affix in (".startsWith(", ".endsWith("))
        and not any(
            about.agrees(about.answer({**line["in"], "kubernetesVersion": "1.37"}), out)
            for out in conformance.outcomes(line)
        )
    ]
    assert differing == []
