"""The stored state of a driver's prepared claims."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from dra_driverkit.cdi import ContainerEdits, resolve
from dra_driverkit.claims import ClaimRef
from dra_driverkit.directories import Directories
from dra_driverkit.errors import CheckpointError, PrepareError
from dra_driverkit.store import ClaimStore, Ready, own_results
from dra_shared.api.resource import DeviceRequestAllocationResult, ResourceClaim

from tests.driverkit.claims import claim, ref, result

_DRIVER = "dongle.example.com"
_KIND = "dongle.example.com/dongle"


class _Crash(BaseException):
    """Simulates the end of the process at this point."""


class _Hardware:
    """Devices that are switched on and off, and survive the driver's process."""

    def __init__(self) -> None:
        self.on: set[str] = set()
        self.broken: set[str] = set()

    def make_ready(self, wanted: ResourceClaim) -> Iterator[Ready]:
        for each in own_results(wanted, _DRIVER):
            if each.device in self.broken:
                raise PrepareError(f"{each.device} does not answer")
            self.on.add(each.device)
            yield Ready(each, ContainerEdits(env=(f"DONGLE={each.device}",)))

    def undo(self, _: ClaimRef, results: Sequence[DeviceRequestAllocationResult]) -> None:
        self.on -= {each.device for each in results}


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    return Directories(tmp_path / "plugin", tmp_path / "registry", tmp_path / "cdi")


@pytest.fixture
def hardware() -> _Hardware:
    return _Hardware()


def _claim(uid: str, *devices: str | DeviceRequestAllocationResult) -> ResourceClaim:
    return claim(uid, *devices, driver=_DRIVER)


def _at(point: str) -> Callable[[str], None]:
    def reach(name: str) -> None:
        if name == point:
            raise _Crash(point)

    return reach


@pytest.fixture
def start(directories: Directories, hardware: _Hardware) -> Callable[..., ClaimStore]:
    def start_store(**fields: Any) -> ClaimStore:
        store = ClaimStore(_DRIVER, directories, _KIND, "node-0", undo=hardware.undo, **fields)
        store.open()
        return store

    return start_store


Start = Callable[..., ClaimStore]


def test_preparing_is_idempotent_across_a_restart(
    start: Start, hardware: _Hardware, directories: Directories
) -> None:
    wanted = _claim("uid-1", "dongle-0", "dongle-1")
    store = start(common=ContainerEdits(env=("DONGLES=yes",)))
    first = store.prepare(wanted, hardware.make_ready)
    hardware.broken.add("dongle-0")
    assert store.prepare(wanted, hardware.make_ready) == first
    assert start().prepare(wanted, hardware.make_ready) == first
    edits = resolve([id_ for device in first for id_ in device.cdi_ids], directories.cdi)
    assert edits.environment() == {"DONGLES": "yes", "DONGLE": "dongle-1"}


@pytest.mark.parametrize("point", ["checkpoint-started", "cdi-written", "checkpoint-completed"])
def test_a_device_switched_on_by_an_interrupted_preparation_is_switched_off(
    start: Start, hardware: _Hardware, directories: Directories, point: str
) -> None:
    wanted = _claim("uid-1", "dongle-0")
    with pytest.raises(_Crash):
        start(reached=_at(point)).prepare(wanted, hardware.make_ready)
    store = start()
    store.unprepare(ref(wanted))
    assert (hardware.on, list(directories.cdi.iterdir()), store.prepared_claims()) == (set(), [], [])


def test_a_lost_cdi_file_is_written_when_its_claim_is_prepared_again(
    start: Start, hardware: _Hardware, directories: Directories
) -> None:
    wanted = _claim("uid-1", "dongle-0")
    store = start()
    prepared = store.prepare(wanted, hardware.make_ready)
    for path in directories.cdi.iterdir():
        path.unlink()
    assert store.prepare(wanted, hardware.make_ready) == prepared
    assert resolve(prepared[0].cdi_ids, directories.cdi).env == ("DONGLE=dongle-0",)


@pytest.mark.parametrize("point", ["undone", "cdi-removed", "checkpoint-removed"])
def test_an_interrupted_unpreparation_is_repeated(
    start: Start, hardware: _Hardware, directories: Directories, point: str
) -> None:
    wanted = _claim("uid-1", "dongle-0")
    start().prepare(wanted, hardware.make_ready)
    with pytest.raises(_Crash):
        start(reached=_at(point)).unprepare(ref(wanted))
    store = start()
    store.unprepare(ref(wanted))
    assert (hardware.on, list(directories.cdi.iterdir()), store.prepared_claims()) == (set(), [], [])


def test_a_failed_preparation_is_undone_by_unprepare(start: Start, hardware: _Hardware) -> None:
    hardware.broken.add("dongle-1")
    store = start()
    wanted = _claim("uid-1", "dongle-0", "dongle-1")
    with pytest.raises(PrepareError, match="prepare failed: dongle-1 does not answer"):
        store.prepare(wanted, hardware.make_ready)
    assert hardware.on == {"dongle-0"}
    store.unprepare(ref(wanted))
    assert hardware.on == set()


def test_a_device_is_prepared_for_one_claim_except_with_admin_access_or_shares(
    start: Start, hardware: _Hardware
) -> None:
    store = start()
    store.prepare(_claim("uid-1", "dongle-0"), hardware.make_ready)
    with pytest.raises(PrepareError, match="dongle-0 is already allocated to different claim uid-1"):
        store.prepare(_claim("uid-2", "dongle-0"), hardware.make_ready)
    for uid, fields in (("uid-3", {"admin_access": True}), ("uid-4", {"share_id": "a-share"})):
        store.prepare(_claim(uid, result("dongle-0", driver=_DRIVER, **fields)), hardware.make_ready)
    store.prepare(_claim("uid-5", result("dongle-0", driver=_DRIVER, pool="another")), hardware.make_ready)
    assert store.prepared_claims() == ["uid-1", "uid-3", "uid-4", "uid-5"]


def test_devices_of_another_driver_are_ignored(start: Start, hardware: _Hardware) -> None:
    both = _claim(
        "uid-1", result("dongle-0", driver=_DRIVER), result("gpu-0", "r1", driver="gpu.example.com")
    )
    assert [device.device for device in start().prepare(both, hardware.make_ready)] == ["dongle-0"]


def test_two_instances_share_their_prepared_claims(start: Start, hardware: _Hardware) -> None:
    old, new = start(), start()
    wanted = _claim("uid-1", "dongle-0")
    first = old.prepare(wanted, hardware.make_ready)
    hardware.broken.add("dongle-0")
    assert new.prepare(wanted, hardware.make_ready) == first
    new.unprepare(ref(wanted))
    assert old.prepared_claims() == []


@pytest.mark.parametrize("content", ["{", '{"preparedClaims": [], "checksum": 1}', "[]", ""])
def test_a_damaged_checkpoint_is_an_error(start: Start, directories: Directories, content: str) -> None:
    start()
    (directories.plugin / "checkpoint.json").write_text(content)
    with pytest.raises(CheckpointError, match="checkpoint is corrupted"):
        start()


def test_a_checkpoint_without_checksum_is_read(start: Start, directories: Directories) -> None:
    start()
    entry = {"uid": "uid-1", "completed": True}
    (directories.plugin / "checkpoint.json").write_text(json.dumps({"preparedClaims": [entry]}))
    assert start().prepared_claims() == ["uid-1"]


def test_a_removed_checkpoint_is_written_again(
    start: Start, hardware: _Hardware, directories: Directories
) -> None:
    store = start()
    store.prepare(_claim("uid-1", "dongle-0"), hardware.make_ready)
    (directories.plugin / "checkpoint.json").unlink()
    assert store.prepared_claims() == ["uid-1"]
    assert start().prepared_claims() == ["uid-1"]
