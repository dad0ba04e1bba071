"""The DRA manager dies between any two phases. After a restart, driver, CDI files and checkpoint agree."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from dra_node_agent.kubelet.dra.checkpoint import STATE_FILE, decode
from dra_node_agent.kubelet.dra.errors import DraError
from dra_node_agent.kubelet.dra.manager import DraManager
from dra_node_agent.kubelet.dra.phases import PreparePhase, UnpreparePhase
from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS
from dra_shared.clock import SystemClock
from dra_shared.features import FeatureGates

from tests.support.fakeapi import FakeApi
from tests.support.kubelet.bench import claim, pod
from tests.support.kubelet.fakedriver import FakeDriver

Phase = PreparePhase | UnpreparePhase

_DRIVERS = ("first", "second")
_PHASES: list[tuple[Phase, int]] = [
    (PreparePhase.VALIDATED, 1),
    (PreparePhase.RESERVED, 1),
    (PreparePhase.CALLED, 1),
    (PreparePhase.CALLED, 2),
    (PreparePhase.PREPARED, 1),
    (UnpreparePhase.CALLED, 1),
    (UnpreparePhase.CALLED, 2),
    (UnpreparePhase.UNPREPARED, 1),
]


class Killed(BaseException):
    """The process was killed: no later code runs."""


class _Node:
    """The parts that survive the kubelet: its directory, the drivers and the API server."""

    def __init__(self, folder: Path, drivers: list[FakeDriver], api: FakeApi) -> None:
        self.folder, self.drivers, self.api = folder, drivers, api
        self.cdi = folder / "cdi"

    @asynccontextmanager
    async def kubelet(self, crash_at: tuple[Phase, int] | None = None) -> AsyncIterator[DraManager]:
        left = crash_at[1] if crash_at else 0

        async def on_phase(phase: Phase) -> None:
            nonlocal left
            if crash_at and phase is crash_at[0]:
                left -= 1
                if left == 0:
                    raise Killed

        manager = DraManager(
            self.folder, self.api.client(), SystemClock(), FeatureGates(), on_phase=on_phase, durable=False
        )
        for driver in self.drivers:
            manager.connections.register(driver.name, driver.endpoint, driver.services)
        try:
            yield manager
        finally:
            await manager.close()

    async def live_and_die(self, crash_at: tuple[Phase, int]) -> None:
        async with self.kubelet(crash_at) as manager:
            await manager.prepare(_pod())
            await manager.unprepare(_pod())

    def checkpointed_uids(self) -> set[str]:
        return {state.claim_uid for state in decode((self.folder / STATE_FILE).read_bytes())}

    def prepared_uids(self) -> set[str]:
        return set().union(*(driver.prepared for driver in self.drivers))

    def check(self) -> None:
        """Check that everything that is prepared is in the checkpoint."""
        assert self.prepared_uids() <= self.checkpointed_uids()
        assert len(list(self.cdi.iterdir())) <= len(self.prepared_uids())

    def check_clean(self) -> None:
        assert self.prepared_uids() == set()
        assert self.checkpointed_uids() == set()
        assert list(self.cdi.iterdir()) == []


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as name:
        Path(name, "cdi").mkdir()
        yield Path(name)


@asynccontextmanager
async def _node(folder: Path) -> AsyncIterator[_Node]:
    api = FakeApi()
    obj: dict[str, Any] = claim("gpu", "pod", driver="first")
    results = obj["status"]["allocation"]["devices"]["results"]
    results.append({**results[0], "driver": "second"})
    api.put(RESOURCE_CLAIMS, obj)
    drivers = [FakeDriver(name, cdi=folder / "cdi") for name in _DRIVERS]
    async with drivers[0], drivers[1]:
        yield _Node(folder, drivers, api)


def _pod() -> Pod:
    return convert(PODS, pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]))


@pytest.mark.parametrize(("phase", "time"), _PHASES)
async def test_a_claim_is_prepared_after_a_crash_if_its_pod_still_exists(
    folder: Path, phase: Phase, time: int
) -> None:
    async with _node(folder) as node:
        with pytest.raises(Killed):
            await node.live_and_die((phase, time))
        node.check()
        async with node.kubelet() as manager:
            await manager.reconcile(["pod-uid"])
            node.check()
            await manager.prepare(_pod())
            assert all(driver.prepared == {"gpu-uid"} for driver in node.drivers)
            ids = manager.containers.cdi_device_ids(_pod(), _pod().spec.containers[0])
            assert ids == [], "the container uses no claim"
            info = manager.cache.get("ns", "gpu")
            assert info is not None
            assert info.cdi_device_ids() == ["first/claim=gpu-uid", "second/claim=gpu-uid"]
            await manager.unprepare(_pod())
        node.check_clean()


@pytest.mark.parametrize(("phase", "time"), _PHASES)
async def test_a_claim_is_unprepared_after_a_crash_if_its_pod_is_gone(
    folder: Path, phase: Phase, time: int
) -> None:
    async with _node(folder) as node:
        with pytest.raises(Killed):
            await node.live_and_die((phase, time))
        node.check()
        async with node.kubelet() as manager:
            await manager.reconcile([])
        node.check_clean()


async def test_a_half_written_checkpoint_is_ignored(folder: Path) -> None:
    async with _node(folder) as node:
        async with node.kubelet() as manager:
            await manager.prepare(_pod())
        (folder / f".{STATE_FILE}.tmp").write_text('{"Data":"{')
        async with node.kubelet() as manager:
            await manager.unprepare(_pod())
        node.check_clean()


async def test_a_corrupt_checkpoint_is_an_error_and_is_kept(folder: Path) -> None:
    path = folder / STATE_FILE
    path.write_text('{"Data":"{}","Checksum":1}')
    with pytest.raises(DraError, match="checkpoint is corrupted"):
        DraManager(folder, FakeApi().client(), SystemClock(), FeatureGates())
    assert path.read_text() == '{"Data":"{}","Checksum":1}'


async def test_claims_of_other_drivers_stay_prepared_until_the_pod_is_deleted(folder: Path) -> None:
    async with _node(folder) as node, node.kubelet() as manager:
        node.drivers[1].errors["gpu-uid"] = "no such device"
        with pytest.raises(
            DraError, match="NodePrepareResources failed for ResourceClaim gpu: no such device"
        ):
            await manager.prepare(_pod())
        node.drivers[1].errors.clear()
        assert manager.might_need_to_unprepare("pod-uid")
        await manager.unprepare(_pod())
        node.check_clean()
        assert not manager.might_need_to_unprepare("pod-uid")
        await manager.unprepare(_pod())
        assert [method for method, _ in node.drivers[0].calls].count("NodeUnprepareResources") == 1
