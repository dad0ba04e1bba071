"""Upstream's queueing hints: the changes after which a rejected pod is tried again."""

from typing import Any

import pytest
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.events import Action, Event, Kind
from dra_scheduler.framework.plugin import EnqueueExtensions
from dra_scheduler.plugins.interpodaffinity import InterPodAffinity
from dra_scheduler.plugins.nodeaffinity import NodeAffinity
from dra_scheduler.plugins.nodedeclaredfeatures import NodeDeclaredFeatures
from dra_scheduler.plugins.noderesources import NodeResourcesFit
from dra_scheduler.plugins.podtopologyspread import PodTopologySpread
from dra_scheduler.plugins.tainttoleration import NodeUnschedulable, TaintToleration
from dra_shared.api.codec import convert
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resources import NODES

from tests.scheduler.objects import node, node_json, pod
from tests.support.cases import each_case

_TERM = {"labelSelector": {"matchLabels": {"app": "y"}}, "topologyKey": "zone"}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_AFFINITY = {"podAffinity": {_REQUIRED: [_TERM]}}
_APART = {"podAntiAffinity": {_REQUIRED: [_TERM]}}
_TAINT = {"key": "k", "effect": "NoSchedule"}


def _with(**allocatable: str) -> Node:
    json = node_json("a")
    json["status"]["allocatable"].update(allocatable)
    return convert(NODES, json)


def _node_with_features(*features: str) -> Node:
    json = node_json("a")
    json["status"]["declaredFeatures"] = list(features)
    return convert(NODES, json)


def _spread(*, honor: bool = False) -> list[dict[str, Any]]:
    constraint: dict[str, Any] = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    return [{**constraint, "nodeTaintsPolicy": "Honor"} if honor else constraint]


def _worth(plugin: EnqueueExtensions, waiting: Pod, event: Event) -> bool:
    return any(
        interest.covers(event) and (interest.hint is None or interest.hint(waiting, event))
        for interest in plugin.events_to_register()
    )


def _neighbours() -> InterPodAffinity:
    return InterPodAffinity(Cache(), lambda name: {})


_BIG = pod("p", requests={"cpu": "5"})
_LABELLED = node("a", labels={"zone": "1"})


@each_case(
    ("plugin", "waiting", "action", "old", "new", "worth"),
    [
        (NodeResourcesFit(), _BIG, Action.NODE_LABEL, _with(cpu="8"), _with(cpu="8"), False),
        (NodeResourcesFit(), _BIG, Action.NODE_ALLOCATABLE, node("a"), _with(memory="9Gi"), False),
        (
            NodeResourcesFit(),
            _BIG,
            Action.NODE_ALLOCATABLE,
            _with(cpu="7"),
            _with(cpu="7", memory="9Gi"),
            False,
        ),
        (NodeResourcesFit(), _BIG, Action.NODE_ALLOCATABLE, node("a"), _with(cpu="5"), True),
        (NodeResourcesFit(), _BIG, Action.NODE_ALLOCATABLE, _with(cpu="6"), _with(cpu="6", pods="11"), True),
        (NodeResourcesFit(), _BIG, Action.ADD, None, node("a"), False),
        (NodeResourcesFit(), _BIG, Action.ADD, None, _with(cpu="5"), True),
        (NodeAffinity(), pod("p", nodeSelector={"zone": "1"}), Action.NODE_LABEL, node("a"), _LABELLED, True),
        (
            NodeAffinity(),
            pod("p", nodeSelector={"zone": "1"}),
            Action.NODE_LABEL,
            _LABELLED,
            node("a", labels={"zone": "1", "more": "x"}),
            False,
        ),
        (TaintToleration(Cache()), pod("p"), Action.NODE_TAINT, node("a", taints=[_TAINT]), node("a"), True),
        (
            TaintToleration(Cache()),
            pod("p"),
            Action.NODE_TAINT,
            node("a"),
            node("a", unschedulable=True),
            False,
        ),
        (NodeUnschedulable(), pod("p"), Action.NODE_TAINT, node("a", unschedulable=True), node("a"), True),
        (NodeUnschedulable(), pod("p"), Action.NODE_TAINT, node("a", taints=[_TAINT]), node("a"), False),
        (NodeDeclaredFeatures(), pod("p"), Action.NODE_FEATURES, node("a"), _node_with_features("x"), True),
        (NodeDeclaredFeatures(), pod("p"), Action.NODE_LABEL, node("a"), _LABELLED, False),
        (_neighbours(), pod("p", affinity=_AFFINITY), Action.ADD, None, node("a"), False),
        (_neighbours(), pod("p", affinity=_AFFINITY), Action.ADD, None, _LABELLED, True),
        (_neighbours(), pod("p", affinity=_AFFINITY), Action.NODE_LABEL, _LABELLED, node("a"), False),
        (_neighbours(), pod("p", affinity=_APART), Action.ADD, None, node("a"), True),
        (_neighbours(), pod("p", affinity=_APART), Action.NODE_LABEL, _LABELLED, node("a"), True),
        (_neighbours(), pod("p", affinity=_APART), Action.NODE_LABEL, node("a"), _LABELLED, False),
        (_neighbours(), pod("p"), Action.ADD, None, _LABELLED, False),
        (
            PodTopologySpread(Cache()),
            pod("p", topologySpreadConstraints=_spread()),
            Action.ADD,
            None,
            node("a"),
            False,
        ),
        (
            PodTopologySpread(Cache()),
            pod("p", topologySpreadConstraints=_spread()),
            Action.DELETE,
            _LABELLED,
            None,
            True,
        ),
        (
            PodTopologySpread(Cache()),
            pod("p", topologySpreadConstraints=_spread()),
            Action.NODE_LABEL,
            _LABELLED,
            node("a", labels={"zone": "1", "more": "x"}),
            False,
        ),
        (
            PodTopologySpread(Cache()),
            pod("p", topologySpreadConstraints=_spread()),
            Action.NODE_LABEL,
            _LABELLED,
            node("a", labels={"zone": "2"}),
            True,
        ),
    ],
)
def test_node_events_requeue_pods_that_they_may_help(
    plugin: Any, waiting: Pod, action: Action, old: Any, new: Any, worth: bool
) -> None:
    assert _worth(plugin, waiting, Event(Kind.NODE, action, old, new)) is worth


@each_case(
    ("plugin", "waiting", "action", "old", "new", "worth"),
    [
        (_neighbours(), pod("p", affinity=_AFFINITY), Action.ADD, None, pod("o", labels={"app": "y"}), True),
        (_neighbours(), pod("p", affinity=_APART), Action.ADD, None, pod("o", labels={"app": "y"}), False),
        (
            _neighbours(),
            pod("p", affinity=_AFFINITY),
            Action.DELETE,
            pod("o", labels={"app": "y"}),
            None,
            False,
        ),
        (_neighbours(), pod("p", affinity=_APART), Action.DELETE, pod("o", labels={"app": "y"}), None, True),
        (_neighbours(), pod("p", labels={"app": "y"}), Action.DELETE, pod("o", affinity=_APART), None, True),
        (
            _neighbours(),
            pod("p", affinity=_AFFINITY),
            Action.POD_LABEL,
            pod("o"),
            pod("o", labels={"app": "y"}),
            True,
        ),
        (
            _neighbours(),
            pod("p", affinity=_AFFINITY),
            Action.POD_LABEL,
            pod("o"),
            pod("o", labels={"app": "z"}),
            False,
        ),
        (
            PodTopologySpread(Cache()),
            pod("p", topologySpreadConstraints=_spread()),
            Action.POD_LABEL,
            pod("o", labels={"app": "x"}),
            pod("o", labels={"app": "x", "more": "y"}),
            False,
        ),
        (
            PodTopologySpread(Cache()),
            pod("p", topologySpreadConstraints=_spread()),
            Action.POD_LABEL,
            pod("o", labels={"app": "x"}),
            pod("o"),
            True,
        ),
        (
            NodeResourcesFit(),
            _BIG,
            Action.POD_SCALE_DOWN,
            pod("o", requests={"memory": "2Gi"}),
            pod("o", requests={"memory": "1Gi"}),
            False,
        ),
        (
            NodeResourcesFit(),
            _BIG,
            Action.POD_SCALE_DOWN,
            pod("o", requests={"cpu": "2"}),
            pod("o", requests={"cpu": "1"}),
            True,
        ),
    ],
)
def test_pod_events_requeue_pods_that_they_may_help(
    plugin: Any, waiting: Pod, action: Action, old: Any, new: Any, worth: bool
) -> None:
    assert _worth(plugin, waiting, Event(Kind.POD, action, old, new)) is worth


@pytest.mark.parametrize(("honor", "worth"), [(True, True), (False, False)])
def test_new_tolerations_requeue_a_pod_whose_spreading_honors_taints(honor: bool, worth: bool) -> None:
    old = pod("p", topologySpreadConstraints=_spread(honor=honor))
    tolerant = pod("p", topologySpreadConstraints=_spread(honor=honor), tolerations=[{"operator": "Exists"}])
    event = Event(Kind.TARGET_POD, Action.POD_TOLERATIONS, old, tolerant)
    assert _worth(PodTopologySpread(Cache()), old, event) is worth
