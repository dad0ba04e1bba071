"""The table of ``dralab devices``: a row for each published device, with the claims that have it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dra_shared.jsontypes import JsonObject

# Driver, pool and name of a device.
Key = tuple[str, str, str]

_MEMORY_SLICE = re.compile(r"memorySlice(\d+)")
_NONE = "<none>"
#: The columns.
HEADER = ("NODE", "DEVICE", "DRIVER", "MODEL", "MIG", "HEALTH", "TAINTS", "CLAIM", "POD")


@dataclass(frozen=True)
class World:
    """The objects from which the rows are built."""

    slices: list[JsonObject]
    claims: list[JsonObject]
    pods: list[JsonObject]
    rules: list[JsonObject]


def rows(world: World, only_node: str = "") -> list[list[str]]:
    """Return the rows, sorted by node and device."""
    from dra_kube.tables import natural_key

    holders, health = _holders(world.claims), _health(world.claims, world.pods)
    found = []
    for piece, device in _devices(world.slices):
        spec = piece["spec"]
        key = (spec["driver"], spec["pool"]["name"], device["name"])
        # Before v1 a device's attributes were in `basic`.
        basic = device.get("basic") or device
        node = (
            spec.get("nodeName")
            or basic.get("nodeName")
            or ("*" if spec.get("allNodes") else spec["pool"]["name"])
        )
        if only_node and node != only_node:
            continue
        taints = [*(basic.get("taints") or ()), *_rules(world.rules, key)]
        state = health.get(key) or ("Unhealthy" if basic.get("taints") else "Healthy")
        holding = holders.get(key, [])
        found.append(
            [
                node,
                key[2],
                key[0],
                _text(basic, "productName", "model", "type"),
                _mig(basic),
                state,
                ",".join(map(_taint, taints)) or _NONE,
                ",".join(f"{meta['namespace']}/{meta['name']}" for meta, _ in holding) or _NONE,
                ",".join(dict.fromkeys(pod for _, pods in holding for pod in pods)) or _NONE,
            ]
        )
    return sorted(found, key=lambda row: (natural_key(row[0]), row[2], natural_key(row[1])))


def _devices(slices: list[JsonObject]) -> Iterator[tuple[JsonObject, JsonObject]]:
    """Yield the devices of each pool's newest generation, with their slices."""
    newest: dict[tuple[str, str], int] = {}
    for piece in slices:
        pool = (piece["spec"]["driver"], piece["spec"]["pool"]["name"])
        newest[pool] = max(newest.get(pool, 0), piece["spec"]["pool"].get("generation", 0))
    for piece in slices:
        pool = piece["spec"]["pool"]
        if pool.get("generation", 0) == newest[piece["spec"]["driver"], pool["name"]]:
            for device in piece["spec"].get("devices") or ():
                yield piece, device


def _results(claim: JsonObject) -> Iterator[tuple[Key, JsonObject]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        yield (result["driver"], result["pool"], result["device"]), result


def _holders(claims: list[JsonObject]) -> dict[Key, list[tuple[JsonObject, list[str]]]]:
    """Return, for each device, the claims that have it and the pods that they are reserved for."""
    found: dict[Key, list[tuple[JsonObject, list[str]]]] = {}
    for claim in claims:
        meta = claim["metadata"]
        reserved = (claim.get("status") or {}).get("reservedFor") or ()
        pods = [f"{meta['namespace']}/{one['name']}" for one in reserved if one.get("resource") == "pods"]
        for key in dict.fromkeys(key for key, _ in _results(claim)):
            found.setdefault(key, []).append((meta, pods))
    return found


def _health(claims: list[JsonObject], pods: list[JsonObject]) -> dict[Key, str]:
    """Return the health of devices from pods' statuses. An id has the claim's UID, and ends with the device's name."""
    reported = [
        (one.get("resourceID", ""), one.get("health", ""))
        for pod in pods
        for status in (pod.get("status") or {}).get("containerStatuses") or ()
        for allocated in status.get("allocatedResourcesStatus") or ()
        for one in allocated.get("resources") or ()
    ]
    found: dict[Key, str] = {}
    for claim in claims:
        uid = claim["metadata"]["uid"]
        mine = [(identity, health) for identity, health in reported if uid in identity]
        for key, _ in _results(claim):
            for identity, health in mine:
                if identity.endswith(f"-{key[2]}") and found.get(key) != "Unhealthy":
                    found[key] = health
    return found


def _rules(rules: list[JsonObject], key: Key) -> Iterator[JsonObject]:
    """Yield the taints that rules put on the device."""
    for rule in rules:
        selector = rule["spec"].get("deviceSelector") or {}
        wanted = (selector.get("driver"), selector.get("pool"), selector.get("device"))
        if all(want in (None, have) for want, have in zip(wanted, key, strict=True)):
            yield rule["spec"]["taint"]


def _taint(taint: JsonObject) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _text(device: JsonObject, *names: str) -> str:
    attributes = device.get("attributes") or {}
    # The names of attributes may begin with the driver's domain.
    plain = {name.rpartition("/")[2]: value for name, value in reversed(attributes.items())}
    return next((plain[name]["string"] for name in names if "string" in plain.get(name, {})), _NONE)


def _mig(device: JsonObject) -> str:
    """Return a MIG device's profile and the GPU memory slices that it uses."""
    profile = _text(device, "profile")
    if profile == _NONE:
        return _NONE
    matches = [_MEMORY_SLICE.fullmatch(name) for name in device.get("capacity") or ()]
    places = sorted(int(match[1]) for match in matches if match)
    if not places:
        return profile
    first, last = places[0], places[-1]
    return f"{profile}@{first}" if first == last else f"{profile}@{first}-{last}"
