"""A driver reports the status of a claim's devices."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from dra_driverkit.devicestatus import merge_device_status, report_device_status
from dra_shared.api.meta import Condition
from dra_shared.api.resource import AllocatedDeviceStatus, NetworkDeviceData
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.client.errors import Conflict
from dra_shared.clock import FakeClock

from tests.support.fakeapi import FakeApi

_NOW = datetime(2026, 3, 1, tzinfo=UTC)
_BEFORE = "2026-01-01T00:00:00Z"
_READY = Condition(type="Ready", status="True", reason="NetworkDeviceReady")


def _status(
    device: str = "nic-0", driver: str = "net.example.com", **fields: object
) -> AllocatedDeviceStatus:
    return msgspec.structs.replace(
        AllocatedDeviceStatus(driver=driver, pool="node-0", device=device), **fields
    )


def test_device_status_entries_of_other_drivers_are_kept() -> None:
    other = _status("gpu-0", "gpu.example.com", data={"x": 1})

    merged = merge_device_status([other], [_status(data={"y": 2})], _NOW)

    assert merged == (other, _status(data={"y": 2}))


def test_condition_keeps_its_time_if_its_status_is_the_same() -> None:
    known = _status(conditions=(msgspec.structs.replace(_READY, last_transition_time=_BEFORE),))

    (merged,) = merge_device_status([known], [_status(conditions=(_READY,))], _NOW)

    assert [condition.last_transition_time for condition in merged.conditions] == [_BEFORE]


def test_condition_gets_the_current_time_if_its_status_changes() -> None:
    failed = Condition(type="Ready", status="False", reason="LinkDown", last_transition_time=_BEFORE)

    (merged,) = merge_device_status([_status(conditions=(failed,))], [_status(conditions=(_READY,))], _NOW)

    assert [(c.status, c.last_transition_time) for c in merged.conditions] == [
        ("True", "2026-03-01T00:00:00Z")
    ]


def test_network_data_are_kept_if_only_a_condition_is_reported() -> None:
    network = NetworkDeviceData(interface_name="eth1")

    (merged,) = merge_device_status([_status(network_data=network)], [_status(conditions=(_READY,))], _NOW)

    assert merged.network_data == network


def _claim_with_device() -> dict[str, Any]:
    result = {"request": "r", "driver": "net.example.com", "pool": "node-0", "device": "nic-0"}
    return {
        "metadata": {"name": "c", "namespace": "default"},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


async def test_report_is_repeated_if_the_claim_has_changed() -> None:
    api = FakeApi()
    api.put(RESOURCE_CLAIMS, _claim_with_device())
    async with api.client() as client:
        stale = await client.get(RESOURCE_CLAIMS, "c", "default")
        await client.update(
            RESOURCE_CLAIMS,
            msgspec.structs.replace(
                stale, metadata=msgspec.structs.replace(stale.metadata, labels={"changed": "yes"})
            ),
        )

        await report_device_status(client, FakeClock(), stale, [_status(data={"speed": 100})])

        claim = await client.get(RESOURCE_CLAIMS, "c", "default")
    assert [status.data for status in claim.status.devices] == [{"speed": 100}]
    assert claim.metadata.labels == {"changed": "yes"}


async def test_report_fails_if_the_claim_changes_each_time() -> None:
    api = FakeApi()
    api.put(RESOURCE_CLAIMS, _claim_with_device())
    api.refuse = lambda call: (409, "Conflict", "changed") if call.subresource == "status" else None
    async with api.client() as client:
        claim = await client.get(RESOURCE_CLAIMS, "c", "default")
        with pytest.raises(Conflict):
            await report_device_status(client, FakeClock(), claim, [_status()])
