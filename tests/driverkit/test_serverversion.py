"""Slices in the form that the server's version requires."""

import httpx
from dra_driverkit.resources import DriverResources, Pool, PoolSlice
from dra_driverkit.serverversion import has_split_slices, join_counters
from dra_shared.api.resource import Counter, CounterSet, Device, DeviceCounterConsumption
from dra_shared.client.rest import Client

from tests.support.cases import each_case


@each_case(
    ("body", "split"),
    [
        ({"major": "1", "minor": "34"}, False),
        ({"major": "1", "minor": "34+"}, False),
        ({"major": "1", "minor": "35"}, True),
        ({"major": "1", "minor": "40"}, True),
        ({}, True),
        ([], True),
    ],
)
async def test_servers_before_1_35_require_counters_in_the_slices_of_devices(
    body: object, split: bool
) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=body))
    async with Client("http://server", transport=transport) as client:
        assert await has_split_slices(client) is split


async def test_an_api_server_whose_version_cannot_be_read_is_treated_as_new() -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(403))
    async with Client("http://server", transport=transport) as client:
        assert await has_split_slices(client)


def test_each_counter_set_is_moved_to_the_slice_of_its_devices() -> None:
    pool = Pool((PoolSlice(shared_counters=(_set("a"), _set("b"))), _slice("a", "0"), _slice("b", "1")))

    joined = join_counters(DriverResources({"p": pool})).pools["p"].slices

    assert [([c.name for c in s.shared_counters], [d.name for d in s.devices]) for s in joined] == [
        (["a"], ["0"]),
        (["b"], ["1"]),
    ]


def test_slices_that_share_a_counter_set_are_merged() -> None:
    counters = PoolSlice(shared_counters=(_set("a"), _set("b")))
    pool = Pool((counters, _slice("a", "0"), _slice("b", "1"), _slice("a", "2")))

    joined = join_counters(DriverResources({"p": pool})).pools["p"].slices

    assert [([c.name for c in s.shared_counters], [d.name for d in s.devices]) for s in joined] == [
        (["b"], ["1"]),
        (["a"], ["0", "2"]),
    ]


def test_pools_without_counters_are_not_changed() -> None:
    pool = Pool((PoolSlice((Device(name="0"),)), PoolSlice((Device(name="1"),))))

    assert join_counters(DriverResources({"p": pool})).pools["p"] == pool


def _set(name: str) -> CounterSet:
    return CounterSet(name=name, counters={"m": Counter(value="1")})


def _slice(counter_set: str, *names: str) -> PoolSlice:
    use = DeviceCounterConsumption(counter_set=counter_set, counters={"m": Counter(value="1")})
    return PoolSlice(tuple(Device(name=name, consumes_counters=(use,)) for name in names))
