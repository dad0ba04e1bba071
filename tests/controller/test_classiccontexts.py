"""The nodes that a PodSchedulingContext names."""

import pytest
from dra_controller.classicdra.contexts import context_of
from dra_shared.api.codec import convert
from dra_shared.api.resources import NODES, PODS, RESOURCE_SLICES
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case

_TAINT = {"key": "k", "effect": "NoSchedule"}
_ZONE_B = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
_NAMED = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["plain"]}]}


def _potential(spec: JsonObject, *slices: JsonObject) -> list[str]:
    nodes = {
        "plain": {},
        "tainted": {"taints": [_TAINT]},
        "soft": {"taints": [{**_TAINT, "effect": "PreferNoSchedule"}]},
        "cordoned": {"unschedulable": True},
    }
    found: list[str] = context_of(
        convert(PODS, {"metadata": {"name": "p"}, "spec": spec}),
        {"gpu": False},
        ["gpu.nvidia.com"],
        [
            convert(NODES, {"metadata": {"name": name, "labels": {"zone": name[0]}}, "spec": node})
            for name, node in {**nodes, "bare": {}}.items()
        ],
        [
            convert(RESOURCE_SLICES, {"spec": {"driver": "gpu.nvidia.com", **one}})
            for one in slices or [{"nodeName": name} for name in nodes]
        ],
        "",
    )["spec"]["potentialNodes"]
    return found


def _affine(*terms: JsonObject) -> JsonObject:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


@each_case(
    ("spec", "names"),
    [
        ({}, ["plain", "soft"]),
        ({"tolerations": [{"key": "k", "operator": "Exists"}]}, ["plain", "soft", "tainted"]),
        ({"tolerations": [{"operator": "Exists"}]}, ["cordoned", "plain", "soft", "tainted"]),
        ({"nodeSelector": {"zone": "s"}}, ["soft"]),
        (_affine(_NAMED), ["plain"]),
        (_affine(_NAMED, {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}), ["plain", "soft"]),
        (_affine(_ZONE_B), []),
    ],
)
def test_suitable_nodes_of_the_pod_are_named(spec: JsonObject, names: list[str]) -> None:
    assert _potential(spec) == names


@pytest.mark.parametrize(
    ("piece", "names"),
    [
        ({"allNodes": True}, ["bare", "plain", "soft"]),
        ({"nodeSelector": {"nodeSelectorTerms": [_ZONE_B]}}, ["bare"]),
        ({"perDeviceNodeSelection": True, "devices": [{"name": "d", "nodeName": "bare"}]}, ["bare"]),
        ({"nodeName": "plain", "driver": "other.example.com"}, []),
    ],
)
def test_only_nodes_with_devices_of_the_driver_are_named(piece: JsonObject, names: list[str]) -> None:
    assert _potential({}, piece) == names
