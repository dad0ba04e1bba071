"""The plugins that consider one node at a time."""

from typing import Any

import pytest
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.events import Action, Event, Kind
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.plugin import EnqueueExtensions
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Code, Status
from dra_scheduler.plugins.nodeaffinity import NodeAffinity, NodeName
from dra_scheduler.plugins.nodeports import NodePorts
from dra_scheduler.plugins.noderesources import NodeResourcesBalancedAllocation, NodeResourcesFit
from dra_scheduler.plugins.tainttoleration import NodeUnschedulable, TaintToleration
from dra_shared.api.codec import convert
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resources import NODES

from tests.scheduler.objects import node, node_json, pod
from tests.support.cases import each_case


def _info(on: Node, *pods: Pod) -> NodeInfo:
    info = NodeInfo(on.metadata.name)
    info.set_node(on)
    for other in pods:
        info.add_pod(other)
    return info


def _with_two_cpus() -> Node:
    json = node_json("b")
    json["status"]["allocatable"]["cpu"] = "2"
    return convert(NODES, json)


def _filter(plugin: Any, candidate: Pod, info: NodeInfo) -> Status | None:
    state = CycleState()
    if hasattr(plugin, "pre_filter"):
        _, status = plugin.pre_filter(state, candidate)
        if status is not None:
            assert status.code is Code.SKIP
            return None
    found: Status | None = plugin.filter(state, candidate, info)
    return found


def _score(plugin: Any, candidate: Pod, info: NodeInfo) -> int:
    state = CycleState()
    assert plugin.pre_score(state, candidate) is None
    found: int = plugin.score(state, candidate, info)
    return found


def test_the_fit_plugin_compares_requests_with_the_free_resources() -> None:
    info = _info(node("a"), pod("other", requests={"cpu": "3"}))
    assert _filter(NodeResourcesFit(), pod("p", requests={"cpu": "1"}), info) is None
    short = _filter(NodeResourcesFit(), pod("p", requests={"cpu": "1001m", "memory": "1Gi"}), info)
    assert short is not None
    assert (short.code, short.reasons) == (Code.UNSCHEDULABLE, ("Insufficient cpu",))


def test_the_fit_plugin_reports_if_preemption_cannot_help() -> None:
    short = _filter(NodeResourcesFit(), pod("p", requests={"cpu": "5", "memory": "9Gi"}), _info(node("a")))
    assert short is not None
    assert short.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert short.reasons == ("Insufficient cpu", "Insufficient memory")


def test_the_fit_plugin_limits_the_number_of_pods() -> None:
    full = _info(node("a"), *(pod(f"p{i}") for i in range(10)))
    status = _filter(NodeResourcesFit(), pod("p"), full)
    assert status is not None
    assert status.reasons == ("Too many pods",)


def test_the_fit_plugin_leaves_missing_extended_resources_to_device_classes() -> None:
    candidate = pod("p", requests={"example.com/gpu": "1"})
    assert _filter(NodeResourcesFit(lambda name: True), candidate, _info(node("a"))) is None
    status = _filter(NodeResourcesFit(), candidate, _info(node("a")))
    assert status is not None
    assert status.reasons == ("Insufficient example.com/gpu",)


def test_the_fit_plugin_prefers_the_emptier_node() -> None:
    busy = _info(node("a"), pod("other", requests={"cpu": "2", "memory": "4Gi"}))
    candidate = pod("p", requests={"cpu": "1", "memory": "2Gi"})
    assert _score(NodeResourcesFit(), candidate, _info(node("b"))) == 75
    assert _score(NodeResourcesFit(), candidate, busy) == 25


def test_balanced_allocation_scores_the_change_that_the_pod_causes() -> None:
    """The balance of the node without the pod does not count."""
    plugin = NodeResourcesBalancedAllocation()
    even, lopsided = _info(node("a")), _info(node("b"))
    lopsided.add_pod(pod("other", requests={"cpu": "2"}))
    assert _score(plugin, pod("p", requests={"cpu": "2", "memory": "4Gi"}), even) == 75
    assert _score(plugin, pod("p", requests={"cpu": "4"}), even) == 50
    assert _score(plugin, pod("p", requests={"memory": "4Gi"}), lopsided) == 87
    assert _score(plugin, pod("p", requests={"cpu": "1", "memory": "2Gi"}), lopsided) == 75
    skipped = plugin.pre_score(CycleState(), pod("p"))
    assert skipped is not None
    assert skipped.code is Code.SKIP


@each_case(
    ("tolerations", "fits"),
    [
        ([], False),
        ([{"key": "dedicated", "operator": "Exists"}], True),
        ([{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}], True),
        ([{"key": "dedicated", "value": "web"}], False),
        ([{"operator": "Exists", "effect": "NoExecute"}], False),
        ([{"operator": "Exists"}], True),
    ],
)
def test_untolerated_taints_reject_a_pod(tolerations: list[dict[str, str]], fits: bool) -> None:
    info = _info(node("a", taints=[{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]))
    status = _filter(TaintToleration(Cache()), pod("p", tolerations=tolerations), info)
    assert (status is None) is fits
    if status is not None:
        assert status.reasons == ("node(s) had untolerated taint(s)",)


def test_nodes_with_prefer_no_schedule_taints_get_lower_scores() -> None:
    cache = Cache()
    tainted = node("a", taints=[{"key": "k", "effect": "PreferNoSchedule"}])
    plugin = TaintToleration(cache)
    skipped = plugin.pre_score(CycleState(), pod("p"))
    assert skipped is not None
    assert skipped.code is Code.SKIP
    cache.set_node(tainted)
    assert _filter(plugin, pod("p"), _info(tainted)) is None
    scores = {
        "a": _score(plugin, pod("p"), _info(tainted)),
        "b": _score(plugin, pod("p"), _info(node("b"))),
    }
    assert plugin.normalize(CycleState(), pod("p"), scores) == {"a": 0, "b": 100}


def test_an_unschedulable_node_rejects_a_pod() -> None:
    info = _info(node("a", unschedulable=True))
    status = _filter(NodeUnschedulable(), pod("p"), info)
    assert status is not None
    assert status.reasons == ("node(s) were unschedulable",)
    daemon = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    assert _filter(NodeUnschedulable(), pod("p", tolerations=daemon), info) is None


def _affinity(*expressions: dict[str, Any], fields: Any = ()) -> dict[str, Any]:
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": required}


@each_case(
    ("expression", "fits"),
    [
        ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "disk", "operator": "NotIn", "values": ["ssd"]}, True),
        ({"key": "zone", "operator": "Exists"}, True),
        ({"key": "zone", "operator": "DoesNotExist"}, False),
        ({"key": "cores", "operator": "Gt", "values": ["15"]}, True),
        ({"key": "cores", "operator": "Lt", "values": ["16"]}, False),
        ({"key": "zone", "operator": "Gt", "values": ["1"]}, False),
    ],
)
def test_required_node_affinity_is_enforced(expression: dict[str, Any], fits: bool) -> None:
    info = _info(node("n", labels={"zone": "a", "cores": "16"}))
    status = _filter(NodeAffinity(), pod("p", affinity=_affinity(expression)), info)
    assert (status is None) is fits


def test_node_selector_is_enforced() -> None:
    info = _info(node("n", labels={"zone": "a"}))
    assert _filter(NodeAffinity(), pod("p", nodeSelector={"zone": "a"}), info) is None
    status = _filter(NodeAffinity(), pod("p", nodeSelector={"zone": "b"}), info)
    assert status is not None
    assert status.reasons == ("node(s) didn't match Pod's node affinity/selector",)


def test_affinity_to_node_names_narrows_the_nodes() -> None:
    named = {"key": "metadata.name", "operator": "In", "values": ["a", "b"]}
    names, status = NodeAffinity().pre_filter(CycleState(), pod("p", affinity=_affinity(fields=[named])))
    assert (names, status) == (frozenset({"a", "b"}), None)
    contradiction = [named, {"key": "metadata.name", "operator": "In", "values": ["c"]}]
    _, status = NodeAffinity().pre_filter(CycleState(), pod("p", affinity=_affinity(fields=contradiction)))
    assert status is not None
    assert status.is_rejection


def test_preferred_node_affinity_is_scored() -> None:
    preference = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": preference}]}
    candidate = pod("p", affinity={"nodeAffinity": preferred})
    assert _score(NodeAffinity(), candidate, _info(node("n", labels={"zone": "a"}))) == 7
    assert _score(NodeAffinity(), candidate, _info(node("n"))) == 0


def test_a_pod_with_a_node_name_fits_only_that_node() -> None:
    assert _filter(NodeName(), pod("p", nodeName="a"), _info(node("a"))) is None
    assert _filter(NodeName(), pod("p", nodeName="a"), _info(node("b"))) is not None


def _port(name: str, port: int, **fields: Any) -> Pod:
    return pod(name, container={"ports": [{"containerPort": 80, "hostPort": port, **fields}]})


def test_a_used_host_port_rejects_a_pod() -> None:
    info = _info(node("a"), _port("web", 80), _port("dns", 53, protocol="UDP", hostIP="10.0.0.1"))
    assert _filter(NodePorts(), _port("p", 80), info) is not None
    assert _filter(NodePorts(), _port("p", 80, hostIP="10.0.0.1"), info) is not None
    assert _filter(NodePorts(), _port("p", 80, protocol="UDP"), info) is None
    assert _filter(NodePorts(), _port("p", 53, protocol="UDP", hostIP="10.0.0.2"), info) is None
    assert _filter(NodePorts(), pod("p"), info) is None


@pytest.mark.parametrize(
    ("plugin", "candidate", "useless", "useful"),
    [
        (NodeResourcesFit(), {"requests": {"cpu": "4"}}, _with_two_cpus(), node("b")),
        (NodeAffinity(), {"nodeSelector": {"disk": "ssd"}}, node("b"), node("b", labels={"disk": "ssd"})),
        (TaintToleration(Cache()), {}, node("b", taints=[{"key": "k", "effect": "NoSchedule"}]), node("b")),
        (NodeUnschedulable(), {}, node("b", unschedulable=True), node("b")),
    ],
)
def test_only_nodes_that_may_fit_requeue_a_pod(
    plugin: EnqueueExtensions, candidate: dict[str, Any], useless: Node, useful: Node
) -> None:
    (interest,) = [one for one in plugin.events_to_register() if one.kind is Kind.NODE]
    assert interest.hint is not None
    waiting = pod("p", **candidate)
    assert not interest.hint(waiting, Event(Kind.NODE, Action.ADD, None, useless))
    assert interest.hint(waiting, Event(Kind.NODE, Action.ADD, None, useful))
