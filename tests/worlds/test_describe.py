"""Described worlds, compared with those of running drivers."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from dra_node_agent.drivers.profile import known_profiles, load_profile
from dra_scheduler.plan.objects import Objects
from dra_shared.api.codec import encode
from dra_shared.api.resources import DEVICE_CLASSES, NODES, RESOURCE_SLICES
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject
from dra_worlds.describe import describe_pools, describe_world
from dra_worlds.fleet import Pool, is_fleet
from dralab.testing import AsyncCluster

_PROFILES = sorted(known_profiles())


def _slices(found: Any) -> dict[tuple[str, str, int], JsonObject]:
    """Return what scheduling reads of slices, by driver, pool and position."""
    slices: dict[tuple[str, str, int], JsonObject] = {}
    for spec in sorted((one["spec"] for one in found), key=lambda spec: repr(spec.get("devices") or ())):
        pool = spec["pool"]["name"]
        position = sum(key[:2] == (spec["driver"], pool) for key in slices)
        kept = {name: value for name, value in spec.items() if name != "pool" and value}
        for device in kept.get("devices", ()):
            for taint in device.get("taints", ()):
                taint.pop("timeAdded", None)
        slices[spec["driver"], pool, position] = kept
    return slices


def _slices_of_world(objects: Objects) -> dict[tuple[str, str, int], JsonObject]:
    return _slices(orjson.loads(encode(RESOURCE_SLICES, one)) for one in objects.of(RESOURCE_SLICES).values())


@pytest.mark.system
async def test_described_profiles_equal_those_of_running_drivers() -> None:
    async with AsyncCluster(nodes=1, drivers=_PROFILES) as cluster:
        running = await cluster.list("resourceslices")
        (node,) = await cluster.list("nodes")
        classes = {one["metadata"]["name"] for one in await cluster.list("deviceclasses")}
    objects = describe_pools([Pool(name="node", drivers=tuple(_PROFILES))])
    assert _slices_of_world(objects) == _slices(running)
    assert {*objects.of(DEVICE_CLASSES)} == classes
    described = objects.of(NODES)["node-0"]
    assert {**described.status.allocatable} == node["status"]["allocatable"]


def test_pools_of_a_fleet_set_cpu_memory_labels_taints_and_zone() -> None:
    pool = Pool(
        name="a", count=2, drivers=("none",), cpu="8", memory="1Gi", zone="z", taints=("k=v:NoSchedule",)
    )
    objects = describe_pools([pool, Pool(name="b", price=2.5, drivers=("gpu.amd.com",))])
    nodes = objects.of(NODES)
    assert [*nodes] == ["a-0", "a-1", "b-0"]
    first = nodes["a-0"]
    assert (first.status.allocatable["cpu"], first.status.allocatable["memory"]) == ("8", "1Gi")
    assert first.metadata.labels["topology.kubernetes.io/zone"] == "z"
    assert [(taint.key, taint.value, taint.effect) for taint in first.spec.taints] == [
        ("k", "v", "NoSchedule")
    ]
    assert nodes["b-0"].metadata.labels["dralab.dev/price"] == "2.5"
    assert {one.spec.node_name for one in objects.of(RESOURCE_SLICES).values()} == {"b-0"}


def test_options_of_the_nvidia_driver_change_its_devices() -> None:
    pool = Pool(name="node", gpus="1xA100-SXM4-40GB:mig")
    plain = describe_pools([pool])
    dynamic = describe_pools([pool], values={"nvidia-gates": "DynamicMIG=true"})
    devices = [
        sum(len(one.spec.devices) for one in world.of(RESOURCE_SLICES).values()) for world in (plain, dynamic)
    ]
    assert devices[0] < devices[1]


@pytest.mark.parametrize(
    ("driver", "message"),
    [("gpu.example.org", "unknown driver"), ("nvidia-device-plugin", "from a dump of such a node")],
)
def test_a_driver_that_a_described_world_cannot_have_is_rejected(driver: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        describe_pools([Pool(name="node", drivers=(driver,))])


def test_world_of_equal_nodes_can_be_empty() -> None:
    assert len(describe_world(0, "8xH100-SXM5-80GB")) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pools:\n- {name: a}\n", True),
        ('{"pools": [{"name": "a"}]}', True),
        ("# Nodes\npools:\n- name: a\n", True),
        ("apiVersion: v1\nkind: Node\npools: []\n", False),
        ("types:\n- {name: a, price: 1}\n", False),
    ],
)
def test_a_file_that_describes_a_fleet_is_recognized(tmp_path: Path, text: str, expected: bool) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(text)
    assert is_fleet(str(file)) is expected


def test_sources_that_do_not_describe_a_fleet_are_not_recognized_as_one(tmp_path: Path) -> None:
    assert not any(map(is_fleet, ("-", str(tmp_path), str(tmp_path / "absent"))))


def test_the_list_of_profiles_is_complete() -> None:
    assert {load_profile(name).driver for name in _PROFILES} >= {"gpu.amd.com", "tpu.google.com"}
