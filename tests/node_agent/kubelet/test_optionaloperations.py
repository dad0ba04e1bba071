"""Drivers that need not be called on the node (DRAOptionalNodeOperations, Kubernetes 1.37)."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from dra_node_agent.kubelet.dra.checkpoint import STATE_FILE
from dra_node_agent.kubelet.dra.claiminfo import SKIP_PREPARE, SKIP_UNPREPARE, ClaimInfo
from dra_node_agent.kubelet.dra.errors import DraError
from dra_node_agent.kubelet.dra.manager import DraManager
from dra_node_agent.kubelet.dra.metrics import PREPARE_SKIPS, UNPREPARE_SKIPS
from dra_node_agent.kubelet.node import declared_features
from dra_shared.api.codec import convert
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS
from dra_shared.clock import FakeClock
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_34, V1_35, V1_36, V1_37, Version

from tests.support.cases import each_case
from tests.support.fakeapi import FakeApi
from tests.support.kubelet.bench import claim, pod

_POD = convert(PODS, pod(resourceClaims=[{"name": "c", "resourceClaimName": "c"}]))


def _claim(*skips: list[str] | None, driver: str = "remote") -> JsonObject:
    """Return a claim of the pod with a device of the driver for each of ``skips``."""
    obj = claim("c", "pod", driver=driver)
    result = obj["status"]["allocation"]["devices"]["results"][0]
    results = [
        {**result, "device": f"d{i}", **({"skipNodeOperations": skip} if skip else {})}
        for i, skip in enumerate(skips)
    ]
    obj["status"]["allocation"]["devices"]["results"] = results
    return obj


@asynccontextmanager
async def _manager(folder: Path, obj: JsonObject, *, gate: bool = True) -> AsyncIterator[DraManager]:
    api = FakeApi()
    api.put(RESOURCE_CLAIMS, obj)
    gates = FeatureGates(V1_37, DRAOptionalNodeOperations=gate)
    manager = DraManager(folder, api.client(), FakeClock(), gates, durable=False)
    yield manager
    await manager.close()


def _count(counter: Any, driver: str) -> float:
    value: float = counter.labels(driver)._value.get()
    return value


async def test_a_driver_without_a_node_component_is_not_called(tmp_path: Path) -> None:
    async with _manager(tmp_path, _claim(["*"], driver="away")) as manager:
        await manager.prepare(_POD)
        assert [info.prepared for info in manager.cache] == [True]
        await manager.unprepare(_POD)
        assert not list(manager.cache)
    assert (_count(PREPARE_SKIPS, "away"), _count(UNPREPARE_SKIPS, "away")) == (1, 1)


async def test_skipped_operations_are_stored_in_the_checkpoint(tmp_path: Path) -> None:
    async with _manager(tmp_path, _claim([SKIP_UNPREPARE, SKIP_PREPARE])) as manager:
        await manager.prepare(_POD)
    data = json.loads(json.loads((tmp_path / STATE_FILE).read_bytes())["Data"])
    state = data["ClaimInfoStateList"][0]["DriverState"]["remote"]
    assert state == {"Devices": None, "skipNodeOperations": [SKIP_PREPARE, SKIP_UNPREPARE]}
    async with _manager(tmp_path, _claim(), gate=False) as manager:
        # The gate is off by now, but a prepared claim is unprepared in the way in which it was prepared.
        await manager.unprepare(_POD)
        assert not list(manager.cache)


async def test_a_kubelet_without_the_gate_rejects_claims_with_skipped_operations(tmp_path: Path) -> None:
    async with _manager(tmp_path, _claim(["*"]), gate=False) as manager:
        with pytest.raises(DraError) as raised:
            await manager.prepare(_POD)
    message = "ResourceClaim c: DRAOptionalNodeOperations feature gate is disabled on kubelet"
    assert str(raised.value) == f"prepare dynamic resources: {message}"


def test_a_kubelet_without_the_gate_accepts_claims_if_one_device_skips_nothing() -> None:
    info = ClaimInfo.from_claim(convert(RESOURCE_CLAIMS, _claim(["*"], None)), optional_operations=False)
    assert not info.skips


@each_case(
    ("skips", "without"),
    [
        ([["*"], ["*"]], {"*"}),
        ([["*"], [SKIP_PREPARE, SKIP_UNPREPARE]], {SKIP_PREPARE, SKIP_UNPREPARE}),
        ([["*"], [SKIP_UNPREPARE]], {SKIP_UNPREPARE}),
        ([["*"], None], set()),
        ([["Later", SKIP_UNPREPARE]], {"Later", SKIP_UNPREPARE}),
        ([None], set()),
    ],
)
def test_an_operation_is_skipped_only_if_all_devices_of_the_driver_skip_it(
    skips: list[list[str] | None], without: set[str]
) -> None:
    info = ClaimInfo.from_claim(convert(RESOURCE_CLAIMS, _claim(*skips)), optional_operations=True)
    assert info.skips.get("remote", set()) == without
    state = info.to_state()
    assert ClaimInfo.from_state(state).skips == info.skips


def test_a_kubelet_of_1_36_ignores_skipped_operations() -> None:
    info = ClaimInfo.from_claim(convert(RESOURCE_CLAIMS, _claim(["*"])), optional_operations=None)
    assert not info.skips


@pytest.mark.parametrize(
    ("version", "declared"),
    [
        (V1_34, []),
        (V1_35, []),
        (V1_36, ["RestartAllContainersOnContainerExits"]),
        (V1_37, ["DRAOptionalNodeOperations", "RestartAllContainersOnContainerExits"]),
    ],
)
def test_a_kubelet_declares_the_features_of_its_version(version: Version, declared: list[str]) -> None:
    more = {"DRAOptionalNodeOperations": True} if version >= V1_37 else {}
    assert declared_features(FeatureGates(version, **more)) == declared


async def test_a_driver_that_skips_only_unprepare_must_be_registered(tmp_path: Path) -> None:
    async with _manager(tmp_path, _claim([SKIP_UNPREPARE])) as manager:
        with pytest.raises(DraError, match="DRA driver remote is not registered"):
            await manager.prepare(_POD)
