"""The kubelet's device manager in every recorded case, kind by kind."""

import copy
import functools
from collections import defaultdict
from typing import Any

from dra_recordings.devicemanager import agrees, answer

from tests.support.cases import each_case
from tests.support.reference import load_vectors
from tests.support.sampling import sample

_KINDS = (
    "admission",
    "capacity",
    "checkpointRead",
    "checkpointWrite",
    "devicesToAllocate",
    "podResources",
    "pods",
    "register",
    "registrationCourse",
    "registrationSocketPath",
    "restart",
    "runContainerOptions",
    "topologyHints",
    "updatePluginResources",
    "validatePlugin",
)


# The number of cases of each kind that a normal run tries. The random worlds have up to 640 of one kind.
_MOST = 80


@functools.cache
def _worlds() -> dict[str, list[dict[str, Any]]]:
    worlds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in load_vectors("devicemanager.json.gz"):
        worlds[case["kind"]].append(case)
    return worlds


@each_case("kind", _KINDS)
def test_every_recorded_case_agrees_with_upstream(kind: str) -> None:
    cases = sample(_worlds()[kind], _MOST)
    assert cases
    differ = [
        case["name"] for case in cases if not agrees(answer({**case["input"], "kind": kind}), case["actual"])
    ]
    assert differ == []


def test_every_recorded_kind_of_case_is_run() -> None:
    assert set(_worlds()) == set(_KINDS)


@each_case(
    ("kind", "path"),
    [
        ("admission", ("message",)),
        ("checkpointRead", ("hashedText",)),
        ("checkpointWrite", ("restored", "allocatable")),
        ("devicesToAllocate", ("filterByAffinity", "noAffinity")),
        ("topologyHints", ("podDeviceRequest",)),
        ("updatePluginResources", ("nodeAllocatable",)),
        ("validatePlugin", ("error",)),
    ],
)
def test_comparison_fails_when_upstreams_answer_differs(kind: str, path: tuple[str, ...]) -> None:
    case = next(case for case in _worlds()[kind] if path[0] in case["actual"])
    ours = answer({**case["input"], "kind": kind})
    other = copy.deepcopy(case["actual"])
    place = other
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = {"other.example.com/device": 1}
    assert agrees(ours, case["actual"])
    assert not agrees(ours, other)
