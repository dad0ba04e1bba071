"""Random clusters with partitions, shares, gangs and preemption, in steps of objects that are created together."""

import random
from typing import Any

from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import DRIVER, claim_json, class_json, node_json, pod_json

_KINDS = ("whole", "part", "share")


def world_of_kinds(rng: random.Random) -> tuple[list[JsonObject], list[list[JsonObject]]]:
    """Return nodes with devices of each kind, and the objects of each step."""
    standing: list[JsonObject] = [class_json(kind, selectors=[_of_kind(kind)]) for kind in _KINDS]
    for index in range(rng.randint(2, 3)):
        name = f"node-{index}"
        standing += [node_json(name), *_slices(name, rng)]
    ways = (_single, _single, _gang, _large_pods, _large_pods)
    return standing, [rng.choice(ways)(f"s{step}", rng) for step in range(rng.randint(5, 9))]


def _of_kind(kind: str) -> JsonObject:
    return {"cel": {"expression": f'device.attributes["{DRIVER}"].kind == "{kind}"'}}


def _device(name: str, kind: str, **more: Any) -> JsonObject:
    return {"name": name, "attributes": {"kind": {"string": kind}}, **more}


def _slices(node: str, rng: random.Random) -> list[JsonObject]:
    """Return a pool of whole and shared devices, and a pool of partitions whose counters are in a separate slice."""
    whole = [_device(f"gpu-{i}", "whole") for i in range(rng.randint(1, 3))]
    shared = _device("shared", "share", allowMultipleAllocations=True, capacity={"memory": {"value": "10Gi"}})
    parts = [
        _device(
            f"part-{size}-{i}",
            "part",
            capacity={"size": {"value": str(size)}},
            consumesCounters=[{"counterSet": "gpu", "counters": {"slices": {"value": str(size)}}}],
        )
        for size in (4, 2, 1)
        for i in range(4 // size)
    ]
    counters = [{"name": "gpu", "counters": {"slices": {"value": "4"}}}]
    return [
        _slice(node, node, 0, 1, devices=[*whole, shared]),
        _slice(node, f"{node}-parts", 0, 2, sharedCounters=counters),
        _slice(node, f"{node}-parts", 1, 2, devices=parts),
    ]


def _slice(node: str, pool: str, index: int, count: int, **content: Any) -> JsonObject:
    spec = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": count},
        **content,
    }
    return {"kind": "ResourceSlice", "metadata": {"name": f"{pool}-{index}"}, "spec": spec}


def _claim(name: str, rng: random.Random) -> JsonObject:
    kind = rng.choice(_KINDS)
    request: JsonObject = {"deviceClassName": kind}
    if kind == "share":
        request["capacity"] = {"requests": {"memory": f"{rng.randint(1, 7)}Gi"}}
    elif kind == "part":
        size = rng.choice((1, 2, 4))
        expression = f'device.capacity["{DRIVER}"].size.compareTo(quantity("{size}")) == 0'
        request["selectors"] = [{"cel": {"expression": expression}}]
    else:
        request["count"] = rng.randint(1, 2)
    return claim_json(name, request=request)


def _pod(name: str, claims: dict[str, str], cpu: str, *, priority: int = 100, **spec: Any) -> JsonObject:
    """Return a pod. Pods with claims have a higher priority, as no controller deallocates claims of evicted pods."""
    spec["priority"] = priority
    return pod_json(name, claims=claims, requests={"cpu": cpu}, container={"image": "x"}, **spec)


def _single(step: str, rng: random.Random) -> list[JsonObject]:
    return [_claim(step, rng), _pod(step, {"gpu": step}, rng.choice(("500m", "1")))]


def _gang(step: str, rng: random.Random) -> list[JsonObject]:
    """Return pods that are created together and request a device each. Sometimes one fewer than the gang needs."""
    count = rng.randint(2, 3)
    least = count + (rng.random() < 0.2)
    group = {
        "kind": "PodGroup",
        "metadata": {"name": step, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": least}}, "priority": 100},
    }
    found = [group]
    for index in range(count):
        name = f"{step}-{index}"
        found.append(claim_json(name, request={"deviceClassName": "whole"}))
        # Which pods a gang preempts depends on which of its pods the scheduler tries first.
        more: dict[str, Any] = {"schedulingGroup": {"podGroupName": step}, "preemptionPolicy": "Never"}
        found.append(_pod(name, {"gpu": name}, "100m", **more))
    return found


def _large_pods(step: str, rng: random.Random) -> list[JsonObject]:
    """Return a pod that fills much of a node, sometimes with a priority that preempts others."""
    return [_pod(step, {}, "3", priority=rng.choice((0, 100)))]
