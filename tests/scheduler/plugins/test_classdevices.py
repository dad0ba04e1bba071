"""Extended resources that DRA provides, as NodeResourcesFit and its sibling compare nodes by them."""

from typing import Any

import pytest
import yaml
from dra_scheduler.componentconfig.load import Loaded, load
from dra_shared.features import FeatureGates

from tests.scheduler.objects import class_json, node_json, pod_json, slice_json
from tests.scheduler.running import node_of, running
from tests.support.fakeapi import FakeApi, Json
from tests.support.waiting import until

_NAME = "example.com/gpu"
_CLASS = class_json(extendedResourceName=_NAME)


def _loaded(plugin: str, **args: Any) -> Loaded:
    """A profile in which that plugin alone compares nodes."""
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
    return _loaded("NodeResourcesFit", scoringStrategy=strategy)


def _wanting(name: str, **spec: Any) -> Json:
    return pod_json(name, requests={_NAME: "1"}, container={"resources": _limits()}, **spec)


def _limits() -> Json:
    return {"requests": {_NAME: "1"}, "limits": {_NAME: "1"}}


async def _chosen(loaded: Loaded, *objects: Json) -> str | None:
    """Where the second pod goes; the first is on node a."""
    api = FakeApi(_CLASS, node_json("a"), node_json("b"), *objects)
    async with running(api, loaded=loaded):
        api.add(_wanting("first", nodeSelector={"kubernetes.io/hostname": "a"}))
        await until(lambda: node_of(api, "first"))
        api.add(_wanting("second"))
        await until(lambda: node_of(api, "second"))
    return node_of(api, "second")


@pytest.mark.parametrize(("kind", "node"), [("MostAllocated", "a"), ("LeastAllocated", "b")])
async def test_devices_in_use_count(kind: str, node: str) -> None:
    assert await _chosen(_fit(kind), slice_json("a", 2), slice_json("b", 2)) == node


async def test_devices_of_another_class_do_not_count() -> None:
    selector = {"cel": {"expression": 'device.attributes["gpu.example.com"].index < 2'}}
    chosen = class_json(extendedResourceName=_NAME, selectors=[selector])
    # Of all devices node a has more free, of those of the class node b.
    api = FakeApi(chosen, node_json("a"), node_json("b"), slice_json("a", 9), slice_json("b", 3))
    async with running(api, loaded=_fit("LeastAllocated")):
        api.add(_wanting("first", nodeSelector={"kubernetes.io/hostname": "a"}))
        await until(lambda: node_of(api, "first"))
        api.add(_wanting("second"))
        await until(lambda: node_of(api, "second"))
    assert node_of(api, "second") == "b"


async def test_balance_counts_them_too() -> None:
    args = {"resources": [{"name": _NAME, "weight": 1}, {"name": "cpu", "weight": 1}]}
    loaded = _loaded("NodeResourcesBalancedAllocation", **args)
    # Half of the devices of both are to be in use: that goes with half of the CPU on node b.
    busy = pod_json("busy", requests={"cpu": "2"}, nodeName="b")
    api = FakeApi(_CLASS, node_json("a"), node_json("b"), slice_json("a", 2), slice_json("b", 2), busy)
    async with running(api, loaded=loaded):
        api.add(_wanting("p"))
        await until(lambda: node_of(api, "p"))
    assert node_of(api, "p") == "b"
