"""Simulated nodes for the nodes of a world: pools for node agents, and driver profiles made from ResourceSlices."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dra_scheduler.plan.objects import Objects
from dra_shared.api.codec import to_builtins
from dra_shared.api.node import Node
from dra_shared.api.resource import ResourceSlice
from dra_shared.api.resources import NODES, RESOURCE_SLICES
from dra_worlds.fleet import Pool

# Nodes without devices need a driver, too: otherwise they would get the default GPUs.
_NO_DEVICES = "none.dralab.dev"


def pools(objects: Objects, folder: Path) -> list[Pool]:
    """Return the world's nodes as pools of equal nodes, and write profiles of their drivers below ``folder``."""
    slices: dict[str, list[ResourceSlice]] = {}
    for piece in objects.of(RESOURCE_SLICES).values():
        if piece.spec.node_name:
            slices.setdefault(piece.spec.node_name, []).append(piece)
    sizes: dict[tuple[str, str], list[Node]] = {}
    for node in objects.of(NODES).values():
        size = node.status.capacity.get("cpu", "64"), node.status.capacity.get("memory", "512Gi")
        sizes.setdefault(size, []).append(node)
    found = []
    for number, ((cpu, memory), nodes) in enumerate(sorted(sizes.items(), key=lambda each: each[0])):
        names = [node.metadata.name for node in nodes]
        drivers = [
            f"{file}@{index}"
            for index, name in enumerate(names)
            for file in _drivers(name, slices.get(name, ()), folder)
        ]
        found.append(
            Pool(
                name=f"restored-{number}",
                count=len(names),
                names=tuple(names),
                cpu=cpu,
                memory=memory,
                drivers=tuple(drivers),
            )
        )
    return found


def _drivers(node: str, slices: Iterable[ResourceSlice], folder: Path) -> Iterable[Path]:
    """Return the files with the profiles of the node's drivers."""
    by_driver: dict[str, list[ResourceSlice]] = {}
    for piece in slices:
        by_driver.setdefault(piece.spec.driver, []).append(piece)
    profiles = [profile(node, driver, pieces) for driver, pieces in by_driver.items()]
    for made in profiles or [profile(node, _NO_DEVICES, ())]:
        file = folder / node / f"{made['driver']}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(made, indent=1))
        yield file


def profile(node: str, driver: str, slices: Iterable[ResourceSlice]) -> dict[str, Any]:
    """Return a driver profile that publishes the pools of these slices and accepts any configuration."""
    newest: dict[str, int] = {}
    pieces = list(slices)
    for piece in pieces:
        pool = piece.spec.pool
        newest[pool.name] = max(newest.get(pool.name, 0), pool.generation)
    made: dict[str, Any] = {"driver": driver, "cdiClass": "device", "anyConfig": True, "serveHealth": False}
    made["deviceEdits"] = {"env": ["DRA_DEVICE_{DEVICE}={device}"]}
    further = []
    for name, generation in newest.items():
        current = [p for p in pieces if (p.spec.pool.name, p.spec.pool.generation) == (name, generation)]
        content = {"generation": generation, **_content(current)}
        if name == node:
            made |= content
        else:
            further.append({"name": name, **content})
    return made | ({"pools": further} if further else {})


def _content(pieces: Iterable[ResourceSlice]) -> Mapping[str, Any]:
    devices, counters = [], []
    for piece in sorted(pieces, key=lambda piece: piece.metadata.name):
        devices += [{"device": to_builtins(device)} for device in piece.spec.devices]
        counters += [
            {"name": group.name, "counters": {name: each.value for name, each in group.counters.items()}}
            for group in piece.spec.shared_counters
        ]
    return {"devices": devices, **({"sharedCounters": counters} if counters else {})}
