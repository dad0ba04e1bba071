"""The plugins that consider other pods: affinity between pods, and topology spreading."""

from typing import Any

import pytest
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.events import Action, Event, Kind
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Code
from dra_scheduler.plugins.interpodaffinity import InterPodAffinity
from dra_scheduler.plugins.podtopologyspread import PodTopologySpread
from dra_shared.api.pod import Pod
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import node, pod


def _cache(**pods_by_node: list[Pod]) -> Cache:
    """Return a cache with nodes a and b in zone one, and node c in zone two."""
    cache = Cache()
    for name, zone in (("a", "one"), ("b", "one"), ("c", "two")):
        cache.set_node(node(name, labels={"zone": zone}))
        for other in pods_by_node.get(name, ()):
            cache.assume(other, name)
    return cache


def _term(app: str, key: str = "zone", **fields: Any) -> JsonObject:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **fields}


def _required_terms(kind: str, *terms: JsonObject) -> JsonObject:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def _fits(plugin: Any, cache: Cache, candidate: Pod) -> dict[str, str]:
    """Return the rejection of each node, empty for nodes that fit."""
    state = CycleState()
    _, status = plugin.pre_filter(state, candidate)
    if status is not None and status.code is Code.SKIP:
        return {info.name: "" for info in cache.nodes()}
    found = {info.name: plugin.filter(state, candidate, info) for info in cache.nodes()}
    return {name: status.message if status is not None else "" for name, status in found.items()}


def _affinity(cache: Cache, labels: dict[str, JsonObject] | None = None) -> InterPodAffinity:
    return InterPodAffinity(cache, lambda name: (labels or {}).get(name, {}))


def test_affinity_requires_the_topology_domain_of_a_matching_pod() -> None:
    cache = _cache(a=[pod("db", labels={"app": "db"})])
    candidate = pod("p", affinity=_required_terms("podAffinity", _term("db")))
    fits = _fits(_affinity(cache), cache, candidate)
    assert fits == {"a": "", "b": "", "c": "node(s) didn't match pod affinity rules"}


def test_the_first_pod_that_matches_its_own_affinity_fits_anywhere() -> None:
    cache = _cache()
    candidate = pod("p", labels={"app": "web"}, affinity=_required_terms("podAffinity", _term("web")))
    assert set(_fits(_affinity(cache), cache, candidate).values()) == {""}
    other = pod("p", affinity=_required_terms("podAffinity", _term("web")))
    assert "" not in _fits(_affinity(cache), cache, other).values()


def test_anti_affinity_of_existing_and_of_new_pods_is_enforced() -> None:
    loner = pod("loner", labels={"app": "web"}, affinity=_required_terms("podAntiAffinity", _term("db")))
    cache = _cache(a=[loner], c=[pod("db", labels={"app": "db"})])
    other = _fits(_affinity(cache), cache, pod("p", labels={"app": "db"}))
    assert other["a"] == other["b"] == "node(s) didn't satisfy existing pods anti-affinity rules"
    assert other["c"] == ""
    again = pod("q", affinity=_required_terms("podAntiAffinity", _term("db")))
    assert _fits(_affinity(cache), cache, again)["c"] == "node(s) didn't match pod anti-affinity rules"


def test_pods_of_other_namespaces_count_only_if_the_term_names_them() -> None:
    elsewhere = pod("db", labels={"app": "db"})
    cache = _cache(a=[elsewhere])
    for fields, fits in (
        ({"namespaces": ["prod"]}, False),
        ({"namespaces": ["default"]}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "ml"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "web"}}}, False),
        ({"namespaceSelector": {}}, True),
    ):
        candidate = pod("p", affinity=_required_terms("podAffinity", _term("db", **fields)))
        found = _fits(_affinity(cache, {"default": {"team": "ml"}}), cache, candidate)
        assert (found["a"] == "") is fits, fields


def test_preferred_affinity_terms_are_scored() -> None:
    cache = _cache(a=[pod("db", labels={"app": "db"})])
    weighted = {"weight": 10, "podAffinityTerm": _term("db", "kubernetes.io/hostname")}
    candidate = pod(
        "p", affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}
    )
    plugin, state = _affinity(cache), CycleState()
    assert plugin.pre_score(state, candidate) is None
    scores = {info.name: plugin.score(state, candidate, info) for info in cache.nodes()}
    assert plugin.normalize(state, candidate, scores) == {"a": 100, "b": 0, "c": 0}


def test_pods_without_affinity_are_equivalent_while_no_pod_has_any() -> None:
    cache = _cache()
    plugin = _affinity(cache)
    assert plugin.sign(pod("p")) == ()
    cache.assume(pod("loner", affinity=_required_terms("podAntiAffinity", _term("db"))), "a")
    assert plugin.sign(pod("p")) is None


def test_a_pod_rejected_for_affinity_is_requeued_when_a_matching_pod_appears() -> None:
    plugin = _affinity(_cache())
    waiting = pod("p", affinity=_required_terms("podAffinity", _term("db")))
    interest = next(i for i in plugin.events_to_register() if i.kind is Kind.POD)
    assert interest.hint is not None
    assert interest.hint(waiting, Event(Kind.POD, Action.ADD, None, pod("db", labels={"app": "db"})))
    assert not interest.hint(waiting, Event(Kind.POD, Action.ADD, None, pod("web", labels={"app": "web"})))


def _spread(skew: int = 1, when: str = "DoNotSchedule", **fields: Any) -> JsonObject:
    selector = {"matchLabels": {"app": "web"}}
    return {
        "maxSkew": skew,
        "topologyKey": "zone",
        "whenUnsatisfiable": when,
        "labelSelector": selector,
        **fields,
    }


def _web(name: str, *constraints: JsonObject, **fields: Any) -> Pod:
    return pod(name, labels={"app": "web"}, topologySpreadConstraints=list(constraints), **fields)


@pytest.mark.parametrize(
    ("skew", "fits"), [(1, {"a": False, "b": False, "c": True}), (2, {"a": True, "b": True, "c": True})]
)
def test_pods_are_spread_over_zones(skew: int, fits: dict[str, bool]) -> None:
    cache = _cache(a=[_web("one")])
    found = _fits(PodTopologySpread(cache), cache, _web("p", _spread(skew)))
    assert {name: text == "" for name, text in found.items()} == fits


def test_a_node_without_the_topology_label_is_rejected() -> None:
    cache = _cache()
    cache.set_node(node("d"))
    found = _fits(PodTopologySpread(cache), cache, _web("p", _spread()))
    assert found["d"] == "node(s) didn't match pod topology spread constraints (missing required label)"


def test_fewer_domains_than_min_domains_count_as_an_empty_domain() -> None:
    cache = _cache(a=[_web("one")], c=[_web("two")])
    assert _fits(PodTopologySpread(cache), cache, _web("p", _spread()))["a"] == ""
    assert "" not in _fits(PodTopologySpread(cache), cache, _web("p", _spread(minDomains=3))).values()


def test_nodes_that_the_pod_cannot_use_are_not_counted_as_domains() -> None:
    cache = _cache(a=[_web("one")])
    restricted = _web("p", _spread(), nodeSelector={"zone": "one"})
    assert _fits(PodTopologySpread(cache), cache, restricted)["a"] == ""
    everywhere = _web("p", _spread(nodeAffinityPolicy="Ignore"), nodeSelector={"zone": "one"})
    assert _fits(PodTopologySpread(cache), cache, everywhere)["a"] != ""


def test_schedule_anyway_constraints_are_scored() -> None:
    cache = _cache(a=[_web("one"), _web("two")])
    plugin, state = PodTopologySpread(cache), CycleState()
    candidate = _web("p", _spread(when="ScheduleAnyway"))
    assert set(_fits(plugin, cache, candidate).values()) == {""}
    assert plugin.pre_score(state, candidate) is None
    scores = {info.name: plugin.score(state, candidate, info) for info in cache.nodes()}
    normalized = plugin.normalize(state, candidate, scores)
    assert normalized["c"] > normalized["a"]
    assert plugin.sign(candidate) is None


def test_several_soft_constraints_iterate_over_the_nodes_once() -> None:
    class Counted(Cache):
        walks = 0

        def nodes(self) -> list[NodeInfo]:
            self.walks += 1
            return super().nodes()

    walks = []
    for number in (1, 50):
        cache = Counted()
        cache.set_node(node("n", labels={"zone": "a"}))
        plugin = PodTopologySpread(cache)
        wishes = [_spread(when="ScheduleAnyway") | {"topologyKey": f"zone-{key}"} for key in range(number)]
        state, candidate = CycleState(), _web("new", *wishes)
        assert plugin.pre_score(state, candidate) is None
        assert plugin.normalize(state, candidate, {"n": 0}) == {"n": 0}
        walks.append(cache.walks)
    assert walks[0] == walks[1]
