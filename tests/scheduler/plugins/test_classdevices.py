"""Scoring of nodes by extended resources that DRA provides."""

from typing import Any

import pytest
import yaml
from dra_scheduler.componentconfig.load import Loaded
from dra_scheduler.plugins.profiles import load
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import class_json, node_json, pod_json, slice_json
from tests.scheduler.running import node_of, run_scheduler
from tests.support.fakeapi import FakeApi
from tests.support.waiting import until

_NAME = "example.com/gpu"
_CLASS = class_json(extendedResourceName=_NAME)


def _config_with_plugin(plugin: str, **args: Any) -> Loaded:
    """Return a configuration in which only that plugin scores nodes."""
    score = {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]}
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"score": score},
        "pluginConfig": [{"name": plugin, "args": args}],
    }
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [profile],
    }
    return load(yaml.safe_dump(config), FeatureGates())


def _fit(kind: str) -> Loaded:
    strategy = {"type": kind, "resources": [{"name": _NAME, "weight": 1}]}
    return _config_with_plugin("NodeResourcesFit", scoringStrategy=strategy)


def _pod_with_gpu(name: str, **spec: Any) -> JsonObject:
    return pod_json(name, requests={_NAME: "1"}, container={"resources": _limits()}, **spec)


def _limits() -> JsonObject:
    return {"requests": {_NAME: "1"}, "limits": {_NAME: "1"}}


async def _choose_node(loaded: Loaded, *objects: JsonObject) -> str | None:
    """Return the node of the second pod. The first pod is on node a."""
    api = FakeApi(_CLASS, node_json("a"), node_json("b"), *objects)
    async with run_scheduler(api, loaded=loaded):
        api.add(_pod_with_gpu("first", nodeSelector={"kubernetes.io/hostname": "a"}))
        await until(lambda: node_of(api, "first"))
        api.add(_pod_with_gpu("second"))
        await until(lambda: node_of(api, "second"))
    return node_of(api, "second")


@pytest.mark.parametrize(("kind", "node"), [("MostAllocated", "a"), ("LeastAllocated", "b")])
async def test_devices_in_use_lower_the_score_of_a_node(kind: str, node: str) -> None:
    assert await _choose_node(_fit(kind), slice_json("a", 2), slice_json("b", 2)) == node


async def test_devices_of_another_class_do_not_affect_the_score() -> None:
    selector = {"cel": {"expression": 'device.attributes["gpu.example.com"].index < 2'}}
    chosen = class_json(extendedResourceName=_NAME, selectors=[selector])
    # Node a has more free devices in total, and node b has more of the class.
    api = FakeApi(chosen, node_json("a"), node_json("b"), slice_json("a", 9), slice_json("b", 3))
    async with run_scheduler(api, loaded=_fit("LeastAllocated")):
        api.add(_pod_with_gpu("first", nodeSelector={"kubernetes.io/hostname": "a"}))
        await until(lambda: node_of(api, "first"))
        api.add(_pod_with_gpu("second"))
        await until(lambda: node_of(api, "second"))
    assert node_of(api, "second") == "b"


async def test_balanced_allocation_counts_devices_of_a_class() -> None:
    args = {"resources": [{"name": _NAME, "weight": 1}, {"name": "cpu", "weight": 1}]}
    loaded = _config_with_plugin("NodeResourcesBalancedAllocation", **args)
    # Half of the devices of both nodes are requested. On node b that matches half of the CPU.
    busy = pod_json("busy", requests={"cpu": "2"}, nodeName="b")
    api = FakeApi(_CLASS, node_json("a"), node_json("b"), slice_json("a", 2), slice_json("b", 2), busy)
    async with run_scheduler(api, loaded=loaded):
        api.add(_pod_with_gpu("p"))
        await until(lambda: node_of(api, "p"))
    assert node_of(api, "p") == "b"
