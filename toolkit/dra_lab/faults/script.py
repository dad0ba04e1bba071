"""What a storm does and when, drawn from a seed: the same seed gives the same script."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dra_shared.faults.catalog import KINDS, SERVICES, Kind

_CODES = (429, 500, 503, 504)
_MOST_PODS_A_NODE = 6
#: How many a node has by default; a fault of one that it lacks is refused, and the storm goes on.
_GPUS = 8


@dataclass(frozen=True)
class Step:
    """One thing that happens ``at`` seconds after the start: ``create`` or ``delete`` a pod, or a fault's name."""

    at: float
    action: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [f"{name}={value}" for name, value in self.arguments.items()]
        return f"{self.at:7.2f} s  {' '.join((self.action, *words))}"


def script(seed: int, seconds: float, nodes: Sequence[str]) -> list[Step]:
    """The steps of ``seconds``, in order: pods that come and go, and faults that never outlast the storm.

    ``nodes`` are the names of those that faults strike; there is one at least.
    """
    rng = random.Random(seed)
    return sorted([*_churn(rng, seconds, nodes), *_faults(rng, seconds, nodes)], key=lambda step: step.at)


def _churn(rng: random.Random, seconds: float, nodes: Sequence[str]) -> Iterator[Step]:
    pods: list[str] = []
    at, number = 0.0, 0
    while at < seconds:
        full = len(pods) >= len(nodes) * _MOST_PODS_A_NODE
        if pods and (full or rng.random() < 0.4):
            yield Step(at, "delete", {"pod": pods.pop(rng.randrange(len(pods)))})
        else:
            name = f"storm-{number}"
            number += 1
            pods.append(name)
            yield Step(at, "create", {"pod": name, "devices": rng.choice((1, 1, 1, 2, 4))})
        at = round(at + rng.uniform(0.1, 1.0), 2)


def _faults(rng: random.Random, seconds: float, nodes: Sequence[str]) -> Iterator[Step]:
    at = round(rng.uniform(1, 3), 2)
    while at < seconds - 1:
        kind = KINDS[rng.choice(sorted(KINDS))]
        lasts = round(min(rng.uniform(1, 6), seconds - at), 2)
        yield Step(at, kind.name, _arguments(rng, kind, lasts, nodes))
        at = round(at + lasts + rng.uniform(0.5, 4), 2)


def _arguments(rng: random.Random, kind: Kind, lasts: float, nodes: Sequence[str]) -> dict[str, Any]:
    match kind.where:
        case "process":
            service = rng.choice(SERVICES)
            return {"service": service} if kind.name == "kill" else {"service": service, "seconds": lasts}
        case "scheduling":
            return {"seconds": lasts}
        case "node":
            return _of_node(rng, kind.name, lasts, nodes)
    return _of_requests(rng, kind.name, lasts)


def _of_node(rng: random.Random, name: str, lasts: float, nodes: Sequence[str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {"seconds": lasts, "node": nodes[rng.randrange(len(nodes))]}
    match name:
        case "xid" | "ecc" | "gpu-lost" | "memory-full":
            arguments["gpu"] = rng.randrange(_GPUS)
        case "mig-changed":
            # By default half of a node's GPUs are in MIG mode, and the first is.
            arguments["gpu"] = 0
        case "driver-slow":
            arguments["delay"] = round(rng.uniform(0.2, 3.0), 2)
        case "clock-ahead":
            arguments["ahead"] = rng.choice((5, 60, 600))
    return arguments


def _of_requests(rng: random.Random, name: str, lasts: float) -> dict[str, Any]:
    arguments: dict[str, Any] = {"seconds": lasts}
    # Drawn for all, so that a seed's later steps do not depend on which fault this is.
    seed = rng.randrange(1000)
    if "seed" in KINDS[name].options:
        arguments["seed"] = seed
    match name:
        case "latency":
            arguments |= {"delay": round(rng.uniform(0.05, 1.0), 2), "share": 0.5}
        case "error":
            arguments |= {"code": rng.choice(_CODES), "share": round(rng.uniform(0.1, 0.9), 2)}
        case "conflict" | "reset" | "loss":
            arguments["share"] = round(rng.uniform(0.1, 0.6), 2)
        case "watch-cut" | "watch-behind":
            arguments["delay"] = round(rng.uniform(0.3, 1.0), 2)
    return arguments
