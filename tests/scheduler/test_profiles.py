"""Each setting of a KubeSchedulerConfiguration takes effect, for each profile."""

from typing import Any

import pytest
import yaml
from dra_scheduler.componentconfig.load import Loaded
from dra_scheduler.config import SchedulerConfig, lease
from dra_scheduler.plugins.dynamicresources.plugin import DynamicResources
from dra_scheduler.plugins.profiles import load, profiles_of
from dra_scheduler.wiring import new_scheduler
from dra_shared.clock import FakeClock
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from prometheus_client import REGISTRY

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.running import condition, events, node_of, quiet, run_scheduler
from tests.support.fakeapi import FakeApi
from tests.support.waiting import until


def _load_profiles(*profiles: JsonObject, **fields: Any) -> Loaded:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        **fields,
    }
    if profiles:
        config["profiles"] = list(profiles)
    return load(yaml.safe_dump(config), FeatureGates())


def _args(plugin: str, **args: Any) -> JsonObject:
    return {"pluginConfig": [{"name": plugin, "args": args}]}


async def test_each_profile_schedules_pods_with_its_scheduler_name() -> None:
    everywhere = {"multiPoint": {"disabled": [{"name": "NodeUnschedulable"}]}}
    loaded = _load_profiles({"schedulerName": "strict"}, {"schedulerName": "lenient", "plugins": everywhere})
    api = FakeApi(node_json("a", unschedulable=True))
    async with run_scheduler(api, loaded=loaded):
        for name in ("strict", "lenient", "default-scheduler"):
            api.add(pod_json(name, schedulerName=name))
        await until(lambda: node_of(api, "lenient") == "a")
        await until(lambda: events(api, "lenient"))
        await until(lambda: condition(api, "strict"))
        await quiet(api)
    assert condition(api, "strict")["message"].startswith(
        "0/1 nodes are available: 1 node(s) were unschedulable."
    )
    # No scheduler has this name.
    assert not condition(api, "default-scheduler")
    controllers = {
        call.body["regarding"]["name"]: call.body["reportingController"] for call in api.writes("events")
    }
    assert controllers == {"strict": "strict", "lenient": "lenient"}


async def test_a_plugin_that_is_disabled_at_one_extension_point_runs_at_the_others() -> None:
    off = {"schedulerName": "s", "plugins": {"filter": {"disabled": [{"name": "TaintToleration"}]}}}
    taint = {"key": "k", "effect": "NoSchedule"}
    api = FakeApi(node_json("a", taints=[taint]))
    async with run_scheduler(api, loaded=_load_profiles(off)):
        api.add(pod_json("p", schedulerName="s"))
        await until(lambda: node_of(api, "p") == "a")


@pytest.mark.parametrize(("strategy", "chosen"), [("LeastAllocated", "empty"), ("MostAllocated", "full")])
async def test_the_scoring_strategy_of_node_resources_is_applied(strategy: str, chosen: str) -> None:
    fit = {"scoringStrategy": {"type": strategy}}
    others = {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}}
    profile = {"schedulerName": "s", "plugins": others, **_args("NodeResourcesFit", **fit)}
    api = FakeApi(node_json("full"), node_json("empty"))
    api.add(pod_json("old", requests={"cpu": "2", "memory": "4Gi"}, nodeName="full"))
    async with run_scheduler(api, loaded=_load_profiles(profile)):
        api.add(pod_json("p", requests={"cpu": "1", "memory": "1Gi"}, schedulerName="s"))
        await until(lambda: node_of(api, "p") == chosen)


@pytest.mark.parametrize(("weight", "chosen"), [(100, "liked"), (1, "empty")])
async def test_plugin_weights_change_the_chosen_node(weight: int, chosen: str) -> None:
    score = {
        "disabled": [{"name": "*"}],
        "enabled": [{"name": "NodeAffinity", "weight": weight}, {"name": "NodeResourcesFit", "weight": 10}],
    }
    api = FakeApi(node_json("liked", labels={"liked": "yes"}), node_json("empty"))
    api.add(pod_json("old", requests={"cpu": "2", "memory": "4Gi"}, nodeName="liked"))
    wish = {"matchExpressions": [{"key": "liked", "operator": "Exists"}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": wish}]}
    async with run_scheduler(api, loaded=_load_profiles({"schedulerName": "s", "plugins": {"score": score}})):
        api.add(pod_json("p", schedulerName="s", affinity={"nodeAffinity": preferred}))
        await until(lambda: node_of(api, "p") == chosen)


async def test_timeouts_of_dynamic_resources_are_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[float | None, float]] = []
    begin = DynamicResources.__init__

    def remember(self: DynamicResources, *args: Any, **kwargs: Any) -> None:
        made.append((kwargs["filter_timeout"], kwargs["binding_timeout"]))
        begin(self, *args, **kwargs)

    monkeypatch.setattr(DynamicResources, "__init__", remember)
    short = {"schedulerName": "a", **_args("DynamicResources", filterTimeout="1s", bindingTimeout="60s")}
    none = {"schedulerName": "b", **_args("DynamicResources", filterTimeout="0s")}
    async with run_scheduler(FakeApi(), loaded=_load_profiles(short, none)):
        assert made == [(1.0, 60.0), (None, 600.0)]


async def test_binding_conditions_time_out_after_the_time_of_the_profile() -> None:
    profile = {"schedulerName": "s", **_args("DynamicResources", bindingTimeout="60s")}
    device = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"], "bindsToNode": True}
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 1, **device), claim_json("c"))
    async with run_scheduler(api, loaded=_load_profiles(profile)) as (_, clock):
        api.add(pod_json("p", claims={"gpu": "c"}, schedulerName="s"))
        await until(lambda: api.get("resourceclaims", "default", "c")["status"].get("allocation"))
        await quiet(api)
        await clock.advance(59)
        await quiet(api)
        assert not condition(api, "p")
        await clock.advance(6)
        await until(lambda: condition(api, "p"))
    assert any("device binding timeout" in event for event in events(api, "p"))
    labels = {"profile": "s", "driver": "gpu.example.com", "status": "timeout"}
    waits = "scheduler_dra_bindingconditions"
    assert REGISTRY.get_sample_value(f"{waits}_allocations_total", labels) == 1
    assert (REGISTRY.get_sample_value(f"{waits}_wait_duration_seconds_sum", labels) or 0) >= 60


async def test_added_affinity_of_the_profile_restricts_nodes() -> None:
    terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}]
    added = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    profile = {"schedulerName": "s", **_args("NodeAffinity", addedAffinity=added)}
    api = FakeApi(node_json("a"))
    async with run_scheduler(api, loaded=_load_profiles(profile)):
        api.add(pod_json("p", schedulerName="s"))
        await until(lambda: condition(api, "p"))
        expected = "0/1 nodes are available: 1 node(s) didn't match scheduler-enforced node affinity."
        assert condition(api, "p")["message"].startswith(expected)
        api.add(node_json("b", labels={"pool": "gpu"}))
        await until(lambda: node_of(api, "p") == "b")


async def test_ignored_resources_are_not_filtered() -> None:
    ignored = {"ignoredResources": ["example.com/a"], "ignoredResourceGroups": ["example.org"]}
    api = FakeApi(node_json("a"))
    async with run_scheduler(
        api, loaded=_load_profiles({"schedulerName": "s", **_args("NodeResourcesFit", **ignored)})
    ):
        needs = {"example.com/a": "1", "example.org/b": "1"}
        api.add(pod_json("p", schedulerName="s", requests=needs))
        api.add(pod_json("q", schedulerName="s", requests={"example.com/b": "1"}))
        await until(lambda: node_of(api, "p") == "a")
        await until(lambda: condition(api, "q"))
    assert "Insufficient example.com/b" in condition(api, "q")["message"]


async def test_default_constraints_spread_the_pods_of_a_service() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    spread = {"defaultingType": "List", "defaultConstraints": [constraint]}
    service = {
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"selector": {"app": "s"}},
    }
    labels = {"app": "s"}
    api = FakeApi(node_json("a", labels={"zone": "one"}), node_json("b"), service)
    api.add(pod_json("old", labels=labels, nodeName="a"))
    async with run_scheduler(
        api, loaded=_load_profiles({"schedulerName": "s", **_args("PodTopologySpread", **spread)})
    ):
        api.add(pod_json("p", labels=labels, schedulerName="s"))
        await until(lambda: node_of(api, "p") == "a")
        api.add(node_json("c", labels={"zone": "two"}))
        await quiet(api)
        api.add(pod_json("q", labels=labels, schedulerName="s"))
        await until(lambda: node_of(api, "q") == "c")


@pytest.mark.parametrize(
    ("point", "plugin", "nodes", "message"),
    [
        (
            "preFilter",
            "NodeResourcesFit",
            1,
            'running "NodeResourcesFit" filter plugin: '
            'error reading "PreFilterNodeResourcesFit" from cycleState: not found',
        ),
        (
            "preScore",
            "TaintToleration",
            2,
            'running Score plugins: plugin "TaintToleration" failed with: '
            'failed to read "PreScoreTaintToleration" from cycleState: not found',
        ),
    ],
)
async def test_plugins_without_their_prefilter_fail_as_upstream(
    point: str, plugin: str, nodes: int, message: str
) -> None:
    off = {"schedulerName": "s", "plugins": {point: {"disabled": [{"name": plugin}]}}}
    api = FakeApi(*(node_json(f"n{number}") for number in range(nodes)))
    async with run_scheduler(api, loaded=_load_profiles(off)):
        api.add(pod_json("p", schedulerName="s"))
        await until(lambda: condition(api, "p"))
    assert (condition(api, "p")["reason"], condition(api, "p")["message"]) == ("SchedulerError", message)


async def test_back_off_and_percentage_of_nodes_to_score_are_applied() -> None:
    loaded = _load_profiles(
        {"schedulerName": "own", "percentageOfNodesToScore": 30},
        {"schedulerName": "common"},
        podInitialBackoffSeconds=4,
        podMaxBackoffSeconds=5,
        percentageOfNodesToScore=70,
    )
    async with run_scheduler(FakeApi(), loaded=loaded) as (scheduler, _):
        assert [scheduler.config.percentage_of(p) for p in profiles_of(scheduler.config)] == [30, 70]
        assert [scheduler.queue._backoff_of(failures) for failures in (1, 2, 5000)] == [4, 5, 5]


async def test_a_replica_with_delayed_cache_starts_its_informers_when_it_leads() -> None:
    loaded = _load_profiles(leaderElection={"resourceName": "mine"}, delayCacheUntilActive=True)
    settings = SchedulerConfig(
        health_port=None, loaded=loaded, leader_elect=True, lease=lease(loaded.config.leader_election)
    )
    held = {"holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    api, clock = FakeApi(node_json("a")), FakeClock()
    api.add({"kind": "Lease", "metadata": {"name": "mine", "namespace": "kube-system"}, "spec": held})
    async with new_scheduler(settings, client=api.client(), clock=clock) as scheduler:
        await quiet(api)
        assert not scheduler.ready
        await clock.advance(20)
        await until(lambda: scheduler.ready)
