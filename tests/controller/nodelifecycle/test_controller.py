"""Nodes that stop reporting, with injected time."""

from typing import Any

import pytest
from dra_controller.framework import Context
from dra_controller.nodelifecycle import NodeLifecycleController
from dra_controller.tainteviction import TaintEvictionController, toleration_seconds
from dra_shared.api.codec import convert
from dra_shared.api.node import Taint, Toleration
from dra_shared.api.pod import Pod, PodSpec
from dra_shared.api.resources import LEASES, NODES, PODS
from dra_shared.client.informer import InformerFactory
from dra_shared.clock import FakeClock, parse_rfc3339
from dra_shared.features import FeatureGates
from prometheus_client import CollectorRegistry

from tests.support.fakeapi import FakeApi

_START = "2026-01-01T00:00:00Z"


def _node(**fields: Any) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": _START, "reason": "KubeletReady"}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": "n1", "uid": "node", "resourceVersion": "1"},
        "spec": {},
        "status": {"conditions": [ready]},
        **fields,
    }


def _lease(renewed: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "n1", "namespace": "kube-node-lease", "resourceVersion": renewed},
        "spec": {"renewTime": renewed},
    }


def _pod(*tolerations: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "pod", "namespace": "default", "uid": "pod", "resourceVersion": "1"},
        "spec": {"nodeName": "n1", "containers": [], "tolerations": list(tolerations)},
        "status": {"phase": "Running"},
    }


class _World:
    def __init__(self, *objects: dict[str, Any]) -> None:
        self.api = FakeApi(*objects)
        self.clock = FakeClock(parse_rfc3339(_START))
        client = self.api.client()
        self.informers = InformerFactory(client, self.clock)
        self.context = Context(client, self.informers, self.clock, FeatureGates(), CollectorRegistry())

    def conditions(self) -> dict[str, tuple[str, str]]:
        (node,) = self.api.of("nodes")
        return {c["type"]: (c["status"], c["reason"]) for c in node["status"]["conditions"]}


async def test_a_silent_node_becomes_unknown_after_the_grace_period() -> None:
    world = _World(_node())
    controller = NodeLifecycleController(world.context)
    world.informers.informer(NODES)._apply(convert(NODES, _node()))
    await controller.check()
    await world.clock.advance(50)
    await controller.check()
    assert world.conditions() == {"Ready": ("True", "KubeletReady")}
    await world.clock.advance(1)
    await controller.check()
    lost = ("Unknown", "NodeStatusUnknown")
    never = ("Unknown", "NodeStatusNeverUpdated")
    assert world.conditions() == {
        "Ready": lost,
        "MemoryPressure": never,
        "DiskPressure": never,
        "PIDPressure": never,
    }
    await controller._recorder.flush()


async def test_a_node_that_renews_its_lease_stays_ready() -> None:
    world = _World(_node())
    controller = NodeLifecycleController(world.context)
    world.informers.informer(NODES)._apply(convert(NODES, _node()))
    for minute in range(1, 5):
        lease = _lease(f"2026-01-01T00:0{minute}:00.000000Z")
        world.informers.informer(LEASES)._apply(convert(LEASES, lease))
        await controller.check()
        await world.clock.advance(40)
        await controller.check()
    assert world.conditions() == {"Ready": ("True", "KubeletReady")}


async def test_taints_of_a_node_are_set_from_its_conditions() -> None:
    world = _World(_node())
    controller = NodeLifecycleController(world.context)
    unknown = {
        "conditions": [{"type": "Ready", "status": "Unknown"}, {"type": "DiskPressure", "status": "True"}]
    }
    world.informers.informer(NODES)._apply(convert(NODES, _node(status=unknown)))
    await controller._mark("n1")
    (node,) = world.api.of("nodes")
    assert {(taint["key"], taint["effect"]) for taint in node["spec"]["taints"]} == {
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    }


async def test_the_not_ready_taint_of_a_new_node_is_removed_when_it_is_ready() -> None:
    new = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    for status in ({"conditions": [{"type": "Ready", "status": "True"}]}, {}):
        node = _node(status=status, spec={"taints": [{"key": "own", "effect": "NoSchedule"}, new]})
        world = _World(node)
        controller = NodeLifecycleController(world.context)
        world.informers.informer(NODES)._apply(convert(NODES, node))
        await controller._mark("n1")
        (marked,) = world.api.of("nodes")
        assert [taint["key"] for taint in marked["spec"]["taints"]] == ["own"]


async def test_pods_are_evicted_when_their_toleration_expires() -> None:
    toleration = {
        "key": "node.kubernetes.io/unreachable",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    world = _World(_pod(toleration))
    controller = TaintEvictionController(world.context)
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": _START}
    world.informers.informer(NODES)._apply(convert(NODES, _node(spec={"taints": [taint]})))
    world.informers.informer(PODS)._apply(convert(PODS, _pod(toleration)))
    await controller.reconcile("default/pod")
    await world.clock.advance(299)
    await controller.reconcile("default/pod")
    assert world.api.of("pods")
    await world.clock.advance(1)
    await controller.reconcile("default/pod")
    assert not world.api.of("pods")
    await controller._recorder.flush()
    controller.queue.shut_down()


async def test_only_pods_of_silent_nodes_are_marked_unready() -> None:
    """A kubelet that reports a node as not ready updates its pods itself."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": _START}
    running = {**_pod(), "status": {"phase": "Running", "conditions": [ready]}}
    world = _World(_node(), running)
    controller = NodeLifecycleController(world.context)
    world.informers.informer(PODS)._apply(convert(PODS, running))

    async def readiness(status: str) -> dict[str, str]:
        reported = {"conditions": [{"type": "Ready", "status": status}]}
        node = _node(status=reported)
        node["metadata"]["resourceVersion"] = world.api.get("nodes", "", "n1")["metadata"]["resourceVersion"]
        world.informers.informer(NODES)._apply(convert(NODES, node))
        await controller._mark("n1")
        (pod,) = world.api.of("pods")
        (condition,) = pod["status"]["conditions"]
        assert isinstance(condition, dict)
        return condition

    assert await readiness("False") == ready
    later = {"type": "Ready", "status": "False", "lastTransitionTime": _START}
    assert await readiness("Unknown") == later
    await controller._recorder.flush()


@pytest.mark.parametrize(
    ("seconds", "tolerated"), [((60, 2), 60.0), ((2, 60), 2.0), ((None, 2), None), ((0, 60), 0.0), ((), 0.0)]
)
def test_the_first_toleration_that_matches_a_taint_is_used(
    seconds: tuple[int | None, ...], tolerated: float | None
) -> None:
    entries = tuple(
        Toleration(key="k", operator="Exists", effect="NoExecute", toleration_seconds=each)
        for each in seconds
    )
    taint = Taint(key="k", effect="NoExecute")
    assert toleration_seconds(Pod(spec=PodSpec(tolerations=entries)), [taint]) == tolerated
