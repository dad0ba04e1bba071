"""The incremental snapshot equals pools that are gathered again for each node, as upstream does."""

import random
from collections.abc import Sequence
from typing import Any

from dra_scheduler.allocator import Features, Pool, Snapshot
from dra_shared.api.codec import convert
from dra_shared.api.node import Node
from dra_shared.api.resource import ResourceSlice
from dra_shared.api.resources import RESOURCE_SLICES
from dra_shared.version import V1_36, V1_37

from tests.scheduler.allocator.worlds import node, slice_of
from tests.support.cases import each_case
from tests.support.sampling import sample

NODES = [node("n0", zone="a"), node("n1", zone="a"), node("n2", zone="b")]


def _relevant(piece: ResourceSlice, here: Node, features: Features) -> bool:
    spec = piece.spec
    if not features.partitionable_devices and (
        spec.per_device_node_selection is not None or spec.shared_counters
    ):
        return False
    if spec.all_nodes or (spec.shared_counters and features.kubernetes < V1_37):
        return True
    if spec.node_name is not None:
        return spec.node_name == here.metadata.name
    if spec.node_selector is not None:
        return here.metadata.labels["zone"] == "a"
    return any(device.node_name == here.metadata.name for device in spec.devices)


def _gather_pools(pieces: Sequence[ResourceSlice], here: Node, features: Features) -> list[tuple[Any, ...]]:
    """Return for each pool of the node its ID, its problem or its devices, and the devices of other nodes."""
    found: dict[tuple[str, str], list[ResourceSlice]] = {}
    for piece in pieces:
        if _relevant(piece, here, features):
            found.setdefault((piece.spec.driver, piece.spec.pool.name), []).append(piece)
    rows: list[tuple[Any, ...]] = []
    for pool_id, mine in found.items():
        generation = max(piece.spec.pool.generation for piece in mine)
        mine = [piece for piece in mine if piece.spec.pool.generation == generation]
        wanted = mine[0].spec.pool.resource_slice_count
        others: list[ResourceSlice] = []
        if len(mine) != wanted:
            whole = [piece for piece in pieces if (piece.spec.driver, piece.spec.pool.name) == pool_id]
            if any(piece.spec.pool.generation > generation for piece in whole):
                continue
            whole = [piece for piece in whole if piece.spec.pool.generation == generation]
            if len(whole) != wanted:
                rows.append((False, pool_id, "incomplete", (), ()))
                continue
            others = [piece for piece in whole if piece not in mine]
        mine.sort(key=lambda piece: piece.metadata.name)
        devices = [device for piece in mine for device in piece.spec.devices]
        names = [device.name for device in devices]
        if len(set(names)) < len(names):
            rows.append((False, pool_id, "invalid", (), ()))
            continue
        rest: tuple[str, ...] = ()
        if features.partitionable_devices:
            known = (*mine, *others) if features.kubernetes >= V1_37 else mine
            sets = {item.name for piece in known for item in piece.spec.shared_counters}
            consumers = [
                (device.name, use.counter_set, piece in mine)
                for piece in (*mine, *others)
                for device in piece.spec.devices
                for use in device.consumes_counters
            ]
            if any(name not in sets for _, name, _ in consumers):
                rows.append((False, pool_id, "invalid", (), ()))
                continue
            rest = tuple(sorted(name for name, _, here_too in consumers if not here_too))
        binding = any(device.binding_conditions for device in devices)
        rows.append((binding, pool_id, "", tuple(names), rest))
    return sorted(rows)


def _summarize(pool: Pool) -> tuple[Any, ...]:
    state = "incomplete" if pool.incomplete else "invalid" if pool.invalid_reason else ""
    names = tuple(device.spec.name for device in pool.devices)
    binding = any(device.spec.binding_conditions for device in pool.devices)
    others = sorted(device.spec.name for device in pool.other_devices if device.counters)
    return binding, pool.id, state, names, tuple(others)


def _random_slice(source: random.Random, number: int) -> ResourceSlice:
    pool = source.choice("pqr")
    generation = source.choice((1, 1, 1, 2))
    counts = {("p", 1): 1, ("p", 2): 2, ("q", 1): 2, ("q", 2): 1, ("r", 1): 3, ("r", 2): 2}
    devices: list[dict[str, Any]] = [
        {"name": f"d{number}" if source.random() < 0.9 else "same"} for _ in range(source.randint(0, 2))
    ]
    for index, device in enumerate(devices):
        device["name"] += str(index)
    for device in devices:
        if source.random() < 0.2:
            counters = {"c": {"value": "1"}}
            device["consumesCounters"] = [{"counterSet": f"set{source.randint(0, 7)}", "counters": counters}]
    spec: dict[str, Any] = {}
    kind = source.choice(("node", "node", "node", "all", "zone", "each", "counters"))
    if kind == "node":
        spec["nodeName"] = source.choice(("n0", "n1", "n2"))
    elif kind == "all":
        spec["allNodes"] = True
    elif kind == "zone":
        requirement = {"key": "zone", "operator": "In", "values": ["a"]}
        spec["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    elif kind == "each":
        spec["perDeviceNodeSelection"] = True
        for device in devices:
            device["nodeName"] = source.choice(("n0", "n1", "n2"))
    else:
        devices = []
        spec["nodeName"] = source.choice(("n0", "n1"))
        spec["sharedCounters"] = [{"name": f"set{number}", "counters": {"c": {"value": "1"}}}]
    if devices and source.random() < 0.2:
        devices[0]["bindingConditions"] = ["example.com/ready"]
    place = {"name": pool, "generation": generation, "resourceSliceCount": counts[pool, generation]}
    return slice_of(f"s{number}", devices, pool=place, **spec)


@each_case("seed", sample(range(150), 50))
def test_incremental_changes_give_the_same_pools_as_gathering_them_again(seed: int) -> None:
    source = random.Random(seed)
    features = Features(
        partitionable_devices=source.random() < 0.8,
        device_binding=True,
        kubernetes=V1_36 if seed % 2 else V1_37,
    )
    snapshot = Snapshot(features)
    pieces: dict[str, ResourceSlice] = {}
    for _ in range(40):
        number = source.randint(0, 7)
        if source.random() < 0.3:
            pieces.pop(f"s{number}", None)
            snapshot.delete_slice(f"s{number}")
        else:
            piece = _random_slice(source, number)
            pieces[piece.metadata.name] = piece
            snapshot.set_slice(piece)
        before = {here.metadata.name: snapshot.stamp(here.metadata.name) for here in NODES}
        for here in NODES:
            seen = [_summarize(pool) for pool in snapshot.pools(here) if pool.devices or not pool.usable]
            expected = [
                row for row in _gather_pools(list(pieces.values()), here, features) if row[2] or row[3]
            ]
            assert seen == expected
            assert snapshot.stamp(here.metadata.name) == before[here.metadata.name]


def test_an_unchanged_pool_stays_the_same_object() -> None:
    snapshot = Snapshot(Features.all())
    snapshot.set_slice(slice_of("s0", [{"name": "d"}], nodeName="n0", pool={"name": "n0"}))
    snapshot.set_slice(slice_of("s1", [{"name": "d"}], nodeName="n1", pool={"name": "n1"}))
    before, stamps = snapshot.pools(NODES[0]), (snapshot.stamp("n0"), snapshot.stamp("n1"))

    snapshot.set_slice(slice_of("s1", [{"name": "e"}], nodeName="n1", pool={"name": "n1"}))

    assert snapshot.pools(NODES[0]) is before
    assert snapshot.stamp("n0") == stamps[0]
    assert snapshot.stamp("n1") != stamps[1]


def test_a_node_whose_labels_change_sees_other_slices() -> None:
    requirement = {"key": "zone", "operator": "In", "values": ["a"]}
    spec = {
        "driver": "a.example.com",
        "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]},
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d"}],
    }
    snapshot = Snapshot(Features.all(), [convert(RESOURCE_SLICES, {"metadata": {"name": "s"}, "spec": spec})])

    assert snapshot.pools(node("n0", zone="b")) == ()
    assert len(snapshot.pools(node("n0", zone="a"))) == 1
    assert snapshot.pools(node("n0", zone="b")) == ()


def test_a_duplicate_slice_in_a_list_makes_the_pool_invalid() -> None:
    piece = slice_of("s", [{"name": "d"}], pool={"resourceSliceCount": 2})

    (pool,) = Snapshot(Features.all(), [piece, piece]).pools(NODES[0])

    assert pool.invalid_reason == "duplicate device name d"


def test_a_metadata_change_of_a_slice_does_not_change_the_snapshot() -> None:
    snapshot = Snapshot(Features.all())
    snapshot.set_slice(slice_of("s", [{"name": "d"}]))
    before, stamp = snapshot.pools(NODES[0]), snapshot.stamp("n0")

    snapshot.set_slice(slice_of("s", [{"name": "d"}]))

    assert snapshot.pools(NODES[0]) is before
    assert snapshot.stamp("n0") == stamp
