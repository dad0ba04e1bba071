import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
from dra_driverkit.publisher import SlicePublisher
from dra_driverkit.resources import DriverResources, Pool, PoolSlice
from dra_shared.api.resource import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
    DeviceTaint,
    NodeAllocatableResourceMapping,
    ResourceSlice,
)
from dra_shared.api.resources import NODES, RESOURCE_SLICES
from dra_shared.clock import FakeClock, settle
from dra_shared.jsontypes import JsonObject
from structlog.testing import capture_logs

from tests.support.fakeapi import Call, FakeApi, Refusal
from tests.support.waiting import until


class _Events:
    """A fake shared informer. Tests pass it events of other writers."""

    def __init__(self) -> None:
        self.changed: Any = None
        self.deleted: Any = None
        self.followed = asyncio.Event()
        self.none = False

    @contextlib.contextmanager
    def follow(self, driver: str, node: str, changed: Any, deleted: Any) -> Iterator[None]:
        assert driver == "gpu.example.com"
        self.changed, self.deleted = changed, deleted
        self.followed.set()
        yield

    def has_none(self, driver: str, node: str) -> bool:
        return self.none


class _World:
    def __init__(self, api: FakeApi, publisher: SlicePublisher, events: _Events, clock: FakeClock) -> None:
        self.problems: list[str] = []
        self.api = api
        self.publisher = publisher
        self.events = events
        self.clock = clock
        self.drop: set[str] = set()
        """Fields that the server does not know."""
        self.respell: dict[str, str] = {}
        """Amounts that the server stores in another spelling."""
        self.fail = 0
        """The number of requests that fail from now on."""
        api.admit, api.refuse = self._admit, self._refuse

    @property
    def lists(self) -> int:
        """Return the number of lists of slices."""
        paths = [path for method, path in self.api.requests if method == "GET"]
        return sum("/resourceslices" in path and "watch=" not in path for path in paths)

    def _refuse(self, call: Call) -> Refusal | None:
        if not self.fail or call.verb == "watch":
            return None
        self.fail -= 1
        return 500, "InternalError", "try again"

    def _admit(self, body: JsonObject) -> JsonObject:
        text = json.dumps(body)
        for sent, stored in self.respell.items():
            text = text.replace(sent, stored)
        admitted: JsonObject = json.loads(text)
        spec = admitted.get("spec", {})
        devices = spec.get("devices", [])
        for device in devices:
            for mapping in device.get("nodeAllocatableResourceMappings", {}).values():
                mapping.setdefault("allocationMultiplier", "1")
        counters = [part for device in devices for part in device.get("consumesCounters", ())]
        for part in (spec, *devices, *counters):
            for field in self.drop:
                part.pop(field, None)
        return admitted

    async def publish(self, *slices: PoolSlice) -> None:
        self.publisher.publish(DriverResources({"node-0": Pool(slices)}))
        await self.publisher.wait_until_published()

    def slices(self) -> list[ResourceSlice]:
        return [msgspec.convert(obj, ResourceSlice) for obj in self.api.of("resourceslices")]

    def shape(self) -> list[tuple[str, int, int, list[str]]]:
        """Return (prefix of the name, generation, count, device names) of each slice."""
        return [
            (
                s.metadata.name.partition("-")[0],
                s.spec.pool.generation,
                s.spec.pool.resource_slice_count,
                [device.name for device in s.spec.devices],
            )
            for s in self.slices()
        ]


@pytest.fixture
async def world() -> AsyncIterator[_World]:
    api = FakeApi()
    api.put(NODES, {"metadata": {"name": "node-0", "uid": "node-uid"}})
    events, clock = _Events(), FakeClock()
    async with api.client() as client:
        informer: Any = events
        problems: list[str] = []
        publisher = SlicePublisher(
            client,
            "gpu.example.com",
            "node-0",
            clock,
            informer,
            handle_error=lambda error, message: problems.append(f"{message}: {error}"),
        )
        running = asyncio.create_task(publisher.run())
        await events.followed.wait()
        world = _World(api, publisher, events, clock)
        world.problems = problems
        yield world
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _devices(*names: str, **fields: Any) -> PoolSlice:
    return PoolSlice(tuple(Device(name=name, **fields) for name in names))


async def test_slices_are_created_with_the_node_as_owner(world: _World) -> None:
    await world.publish(PoolSlice(shared_counters=(CounterSet(name="c"),)), _devices("a", "b"))
    assert world.shape() == [("00000", 1, 2, []), ("00001", 1, 2, ["a", "b"])]
    slice_ = world.slices()[1]
    assert slice_.metadata.generate_name == "00001-gpu.example.com-node-0-"
    assert slice_.spec.node_name == "node-0"
    (owner,) = slice_.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Node", "node-0", "node-uid", True)


async def test_existing_slices_are_not_listed_if_the_informer_has_none(world: _World) -> None:
    world.events.none = True
    await world.publish(_devices("a"))
    assert (world.shape(), world.lists) == ([("00000", 1, 1, ["a"])], 0)
    # The event of the publisher's own write may not have arrived yet.
    await world.publish(_devices("b"))
    assert (world.shape(), world.lists) == ([("00000", 1, 1, ["b"])], 1)


async def test_publishing_equal_devices_writes_nothing(world: _World) -> None:
    await world.publish(_devices("a"), _devices("b"))
    written = list(world.api.calls)
    await world.publish(_devices("a"), _devices("b"))
    assert world.api.calls == written


async def test_changing_one_slice_keeps_the_pool_generation(world: _World) -> None:
    await world.publish(_devices("a"), _devices("b"))
    await world.publish(_devices("a"), _devices("b", "c"))
    assert world.shape() == [("00000", 1, 2, ["a"]), ("00001", 1, 2, ["b", "c"])]


async def test_changing_two_slices_raises_the_pool_generation(world: _World) -> None:
    await world.publish(_devices("a"), _devices("b"))
    await world.publish(_devices("x"), _devices("y"))
    assert world.shape() == [("00000", 2, 2, ["x"]), ("00001", 2, 2, ["y"])]


async def test_a_change_in_the_number_of_slices_rewrites_all_slices_of_the_pool(world: _World) -> None:
    await world.publish(_devices("a"))
    await world.publish(_devices("a"), _devices("b"))
    assert world.shape() == [("00000", 2, 2, ["a"]), ("00001", 2, 2, ["b"])]
    await world.publish(_devices("a"))
    assert world.shape() == [("00000", 2, 1, ["a"])]


async def test_a_deleted_slice_is_created_again(world: _World) -> None:
    await world.publish(_devices("a"))
    (gone,) = world.slices()
    world.api.remove("resourceslices", "", gone.metadata.name)
    world.events.deleted(gone)
    await until(world.slices, clock=world.clock)
    assert world.shape() == [("00000", 1, 1, ["a"])]


async def test_a_slice_that_someone_else_edited_is_restored(world: _World) -> None:
    await world.publish(_devices("a"))
    edited = world.api.of("resourceslices")[0]
    edited["spec"]["devices"] = [{"name": "hacked"}]
    stored = world.api.put(RESOURCE_SLICES, edited)
    slice_ = msgspec.convert(stored, ResourceSlice)
    world.events.changed(slice_)
    await until(lambda: world.shape()[0][3] == ["a"], clock=world.clock)


@pytest.mark.parametrize("pool", ["node-0", "made-up"])
async def test_a_slice_of_the_driver_that_the_publisher_did_not_create_is_deleted(
    world: _World, pool: str
) -> None:
    await world.publish(_devices("a"))
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "node-0",
        "pool": {"name": pool, "generation": 99, "resourceSliceCount": 1},
        "devices": [{"name": "invented"}],
    }
    added = world.api.put(RESOURCE_SLICES, {"metadata": {"name": "by-hand"}, "spec": spec})
    world.events.changed(msgspec.convert(added, ResourceSlice))
    await until(lambda: not any(s.metadata.name == "by-hand" for s in world.slices()), clock=world.clock)
    await world.publisher.wait_until_published()
    ((_, generation, count, devices),) = world.shape()
    assert (generation, count, devices) == (100 if pool == "node-0" else 1, 1, ["a"])


async def test_devices_published_during_a_sync_are_not_lost(world: _World) -> None:
    await world.publish(_devices("a"))
    (own,) = world.slices()
    # The event of the publisher's own write arrives before the response.
    version = world.publisher._written.pop(own.metadata.name)
    world.events.changed(own)
    world.publisher._written[own.metadata.name] = version
    await settle()
    world.publisher.publish(DriverResources({"node-0": Pool((_devices("b"),))}))
    await world.clock.advance(5)
    await settle()
    assert [devices for _, _, _, devices in world.shape()] == [["b"]]


async def test_watch_events_of_the_publishers_own_writes_cause_no_further_writes(world: _World) -> None:
    await world.publish(_devices("a"))
    (own,) = world.slices()
    world.events.changed(msgspec.structs.replace(own, metadata=own.metadata))
    written, lists = list(world.api.calls), world.lists
    await world.clock.advance(5)
    assert (world.api.calls, world.lists) == (written, lists)


async def test_a_driver_can_request_a_pool_generation(world: _World) -> None:
    world.publisher.publish(DriverResources({"node-0": Pool((_devices("a"),), generation=5)}))
    await world.publisher.wait_until_published()
    assert world.shape() == [("00000", 5, 1, ["a"])]
    world.publisher.publish(DriverResources({"node-0": Pool((_devices("b"), _devices("c")), generation=5)}))
    await world.publisher.wait_until_published()
    assert world.shape() == [("00000", 6, 2, ["b"]), ("00001", 6, 2, ["c"])]


async def test_errors_of_publishing_are_reported_to_the_driver(world: _World) -> None:
    await world.publish(_devices("a"))
    world.publisher.publish(DriverResources({"node-0": Pool((_devices("a", "a"),))}))
    await world.clock.advance(1)
    world.fail = 1
    world.publisher.publish(DriverResources({"node-0": Pool((_devices("b"),))}))
    await until(lambda: world.shape()[0][3] == ["b"], clock=world.clock)
    world.drop = {"taints", "sharedCounters"}
    counters = CounterSet(name="c", counters={"x": Counter(value="1")})
    tainted = Device(name="b", taints=(DeviceTaint(key="k", effect="NoSchedule"),))
    await world.publish(PoolSlice((tainted,), (counters,)))
    assert world.problems == [
        'pool validation failed: found duplicate device "a" in pool "node-0"',
        "processing ResourceSlice objects: try again",
        'publishing a ResourceSlice: pool "node-0", slice #0: some fields were dropped by the apiserver, probably '
        "because these features are disabled: DRADeviceTaints DRAPartitionableDevices",
    ]


async def test_publishing_a_separate_pool_does_not_change_the_slices_of_the_node(world: _World) -> None:
    await world.publish(_devices("a"))
    async with world.api.client() as client:
        publisher = SlicePublisher(client, "gpu.example.com", "node-0", world.clock, pool="wide")
        running = asyncio.create_task(publisher.run())
        other = {"driver": "gpu.example.com", "pool": {"name": "others"}, "allNodes": True}
        world.api.put(RESOURCE_SLICES, {"metadata": {"name": "z-others"}, "spec": other})
        for wide in ({"wide": Pool((_devices("w"),), all_nodes=True)}, {}):
            publisher.publish(DriverResources(wide))
            await publisher.wait_until_published()
            assert [s.spec.pool.name for s in world.slices()] == ["node-0", *wide, "others"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_slices_of_other_drivers_and_nodes_are_not_changed(world: _World) -> None:
    for name, driver, node in (("other", "net.example.com", "node-0"), ("else", "gpu.example.com", "node-1")):
        spec = {"driver": driver, "nodeName": node, "pool": {"name": "p"}}
        world.api.put(RESOURCE_SLICES, {"metadata": {"name": name}, "spec": spec})
    await world.publish(_devices("a"))
    assert [call for call in world.api.calls if call.verb == "delete"] == []
    assert [s.metadata.name for s in world.slices()][1:] == ["else", "other"]


async def test_slices_left_by_an_earlier_driver_process_are_deleted(world: _World) -> None:
    for name, pool in (("00000-gpu.example.com-node-0-old", "gone"), ("strange", "node-0")):
        spec = {"driver": "gpu.example.com", "nodeName": "node-0", "pool": {"name": pool, "generation": 4}}
        world.api.put(RESOURCE_SLICES, {"metadata": {"name": name}, "spec": spec})
    await world.publish(_devices("a"))
    assert world.shape() == [("00000", 5, 1, ["a"])]


async def test_times_of_taints_are_set_by_the_server(world: _World) -> None:
    taint = DeviceTaint(key="k", value="v", effect="NoSchedule")
    await world.publish(_devices("a", taints=(taint,)), _devices("b"))
    stored = world.api.of("resourceslices")[0]
    stored["spec"]["devices"][0]["taints"][0]["timeAdded"] = "2026-01-01T00:00:00Z"
    world.api.add(stored, quietly=True)
    written = list(world.api.calls)
    await world.publish(_devices("a", taints=(taint,)), _devices("b"))
    assert world.api.calls == written
    await world.publish(_devices("a", "c", taints=(taint,)), _devices("b"))
    first = world.slices()[0].spec.devices
    assert [t.time_added for device in first for t in device.taints] == ["2026-01-01T00:00:00Z", None]


async def test_a_multiplier_that_the_server_defaults_causes_no_write(world: _World) -> None:
    mapping = NodeAllocatableResourceMapping(capacity_key="cpu")
    with capture_logs() as logs:
        await world.publish(_devices("a", node_allocatable_resource_mappings={"cpu": mapping}))
    stored = world.slices()[0].spec.devices[0].node_allocatable_resource_mappings["cpu"]
    assert stored.allocation_multiplier == "1"
    assert not logs


async def test_fields_of_a_slice_for_all_its_devices_are_published(world: _World) -> None:
    sets = PoolSlice(shared_counters=(CounterSet(name="c", counters={"x": Counter(value="1")}),))
    part = Device(
        name="a", consumes_counters=(DeviceCounterConsumption(counter_set="c", compatibility_groups=("g",)),)
    )
    await world.publish(sets, PoolSlice((part,), (), "example.com/kind", ("*",)))
    spec = world.slices()[1].spec
    assert (spec.partition_type_attribute, spec.skip_node_operations) == ("example.com/kind", ("*",))
    await world.publish(sets, PoolSlice((part,), (), "example.com/kind"))
    assert world.slices()[1].spec.skip_node_operations == ()
    world.drop = {"partitionTypeAttribute", "skipNodeOperations", "compatibilityGroups"}
    part = msgspec.structs.replace(part, name="b")
    await world.publish(sets, PoolSlice((part,), (), "example.com/type", ("*",)))
    assert world.problems == [
        'publishing a ResourceSlice: pool "node-0", slice #1: some fields were dropped by the apiserver, probably '
        "because these features are disabled: DRAPartitionableDevicesType DRAOptionalNodeOperations "
        "DRADeviceCompatibilityGroups"
    ]


async def test_fields_that_the_server_drops_cause_no_endless_writes(world: _World) -> None:
    world.drop = {"bindsToNode"}
    await world.publish(_devices("a", binds_to_node=True))
    slices = world.slices()
    world.events.changed(slices[0])
    written = list(world.api.calls)
    for _ in range(5):
        await world.clock.advance(1)
    await world.publish(_devices("a", binds_to_node=True))
    assert world.api.calls == written


def _amounts(bandwidth: str, memory: str, most: str) -> PoolSlice:
    policy = CapacityRequestPolicy(
        default=bandwidth, valid_range=CapacityRequestPolicyRange(min="1", max=most)
    )
    counters = {"memory": Counter(value=memory)}
    device = Device(
        name="a",
        capacity={"bandwidth": DeviceCapacity(value=bandwidth, request_policy=policy)},
        consumes_counters=(DeviceCounterConsumption(counter_set="set", counters=counters),),
    )
    return PoolSlice((device,), (CounterSet(name="set", counters=counters),))


async def test_quantities_that_the_server_reformats_cause_no_write(world: _World) -> None:
    world.respell = {'"1000"': '"1k"', '"1024Mi"': '"1Gi"', '"1074000000"': '"1074M"'}
    with capture_logs() as logs:
        await world.publish(_amounts("1000", "1024Mi", "1074000000"))
    assert not logs
    assert world.slices()[0].spec.devices[0].capacity["bandwidth"].value == "1k"
    for other in (_amounts("1", "1Gi", "1074M"), _amounts("1k", "1G", "1074M"), _amounts("1k", "1Gi", "1G")):
        written = len(world.api.calls)
        await world.publish(other)
        assert len(world.api.calls) > written


async def test_a_failed_write_of_a_slice_is_retried(world: _World) -> None:
    world.fail = 3
    world.publisher.publish(DriverResources({"node-0": Pool((_devices("a"),))}))
    await until(world.slices, clock=world.clock)
    assert world.shape() == [("00000", 1, 1, ["a"])]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"attributes": {"gpu.example.com/model": DeviceAttribute(string="T4")}},
            'attribute "gpu.example.com/model" of device "a" in pool "node-0" has the driver\'s own domain: '
            'publish it as "model"',
        ),
        (
            {"capacity": {n: DeviceCapacity(value="1") for n in ("memory", "gpu.example.com/memory")}},
            'capacity "gpu.example.com/memory" of device "a" in pool "node-0" has the driver\'s own domain, and '
            '"memory" means the same: publish it as "memory"',
        ),
    ],
)
async def test_attribute_names_with_the_drivers_own_domain_are_rejected(
    world: _World, fields: dict[str, Any], problem: str
) -> None:
    """The helper refuses them, too: https://github.com/kubernetes/kubernetes/pull/142218."""
    world.publisher.publish(DriverResources({"node-0": Pool((_devices("a", **fields),))}))
    await until(lambda: bool(world.problems))
    assert world.problems == [f"pool validation failed: {problem}"]
    assert world.slices() == []


async def test_attribute_names_with_other_domains_are_published(world: _World) -> None:
    await world.publish(_devices("a", attributes={"example.com/model": DeviceAttribute(string="T4")}))
    assert len(world.slices()) == 1
