"""The script of a storm, drawn from a seed. The same seed gives the same script."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dra_shared.faults.catalog import KINDS
from dra_shared.faults.kind import Kind
from dra_shared.faults.places import SERVICES

_MOST_PODS_A_NODE = 6


@dataclass(frozen=True)
class Step:
    """One step of a storm, ``at`` seconds after its start.

    ``what`` is ``create`` or ``delete`` for a pod, or else the name of a fault.
    """

    at: float
    action: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [f"{name}={value}" for name, value in self.arguments.items()]
        return f"{self.at:7.2f} s  {' '.join((self.action, *words))}"


def script(seed: int, seconds: float, nodes: Sequence[str]) -> list[Step]:
    """Return the steps of a storm in order: pods are created and deleted, and faults end before the storm does.

    ``nodes`` are the names of those that faults strike; there must be at least one.
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
    arguments: dict[str, Any] = {"seconds": lasts} if kind.lasts else {}
    match kind.where:
        case "process":
            arguments["service"] = rng.choice(SERVICES)
        case "node":
            arguments["node"] = nodes[rng.randrange(len(nodes))]
        case "requests":
            # Drawn for every fault, so that a seed's later steps do not depend on the fault.
            seed = rng.randrange(1000)
            if "seed" in kind.options:
                arguments["seed"] = seed
    return arguments | kind.draw(rng)
