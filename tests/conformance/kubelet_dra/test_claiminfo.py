"""The claim info cache and its checkpoint, compared with the real ones after the same steps."""

from pathlib import Path

import msgspec
import pytest
from dra_node_agent.kubelet.dra.checkpoint import (
    CheckpointError,
    CheckpointFile,
    encode,
)
from dra_node_agent.kubelet.dra.claiminfo import ClaimInfo, ClaimInfoCache
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.jsontypes import JsonObject

from tests.conformance.kubelet_dra.tables import (
    Check,
    cases,
    read_device,
    read_info,
    read_state,
    without_nulls,
)


async def _add_device(case: JsonObject, tmp_path: Path) -> None:
    info = read_info(case["table"]["claimInfo"])
    device = read_device(case["table"]["device"])
    info.add_device("test-driver", device)
    assert info.devices["test-driver"][-1] == device


async def _add_pod(case: JsonObject, tmp_path: Path) -> None:
    info = read_info(case["table"]["claimInfo"])
    info.pod_uids.add("test-pod-uid")
    assert len(info.pod_uids) == case["table"]["expectedLen"]


async def _delete_pod(case: JsonObject, tmp_path: Path) -> None:
    info = read_info(case["table"]["claimInfo"])
    info.pod_uids.discard("test-pod-uid")
    assert "test-pod-uid" not in info.pod_uids


async def _has_pod(case: JsonObject, tmp_path: Path) -> None:
    info = read_info(case["table"]["claimInfo"])
    assert ("test-pod-uid" in info.pod_uids) == case["table"]["expectedResult"]


async def _is_prepared(case: JsonObject, tmp_path: Path) -> None:
    assert read_info(case["table"]["claimInfo"]).prepared == case["table"]["expectedResult"]


async def _set_prepared(case: JsonObject, tmp_path: Path) -> None:
    info = read_info(case["table"]["claimInfo"])
    info.prepared = True
    assert info.prepared


async def _from_claim(case: JsonObject, tmp_path: Path) -> None:
    claim = msgspec.convert(without_nulls(case["table"]["claim"]), RESOURCE_CLAIMS.type)
    expected = case["table"]["expectedResult"]
    info = ClaimInfo.from_claim(claim)
    assert info.to_state() == read_state(expected["ClaimInfoState"])
    assert info.prepared == expected["prepared"]


async def _from_state(case: JsonObject, tmp_path: Path) -> None:
    info = ClaimInfo.from_state(read_state(case["table"]["state"]))
    expected = case["table"]["expectedResult"]
    assert info.to_state() == read_state(expected["ClaimInfoState"])
    assert info.prepared == expected["prepared"]


def _cache(tmp_path: Path, data: JsonObject) -> ClaimInfoCache:
    cache = ClaimInfoCache(tmp_path, "state", durable=False)
    for key, info in data.get("claimInfo", {}).items():
        known = read_info(info)
        # One of upstream's tables stores a claim under another name than its own.
        known.name = key.partition("/")[2]
        cache.add(known)
    return cache


async def _new_cache(case: JsonObject, tmp_path: Path) -> None:
    table = case["table"]
    directory = tmp_path if table["stateDir"] else Path()
    if table["wantErr"]:
        with pytest.raises(CheckpointError):
            ClaimInfoCache(directory, table["checkpointName"])
        return
    assert list(ClaimInfoCache(directory, table["checkpointName"])) == []


def _metrics(text: str) -> dict[str, int]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.split('"')[1]: int(line.rsplit(" ", 1)[1]) for line in lines}


async def _cache_add(case: JsonObject, tmp_path: Path) -> None:
    table = case["table"]
    cache = _cache(tmp_path, {})
    for data in table.get("initialClaimInfo") or ():
        cache.add(read_info(data))
    info = cache.add(read_info(table["claimInfo"]))
    assert cache.get(info.namespace, info.name) is info
    assert cache.count_in_use() == _metrics(table["expectMetrics"])


async def _cache_delete(case: JsonObject, tmp_path: Path) -> None:
    cache = _cache(tmp_path, case["table"]["claimInfoCache"])
    cache.delete("test-namespace", "test-claim")
    assert "test-namespace/test-claim" not in cache
    assert cache.count_in_use() == _metrics(case["table"]["expectMetrics"])


async def _cache_contains(case: JsonObject, tmp_path: Path) -> None:
    cache = _cache(tmp_path, case["table"]["claimInfoCache"])
    assert (read_info(case["table"]["claimInfo"]).key in cache) == case["table"]["expectedResult"]


async def _cache_get(case: JsonObject, tmp_path: Path) -> None:
    cache = _cache(tmp_path, case["table"]["claimInfoCache"])
    found = cache.get("test-namespace", "test-claim")
    assert (found is not None) == case["table"]["expectedExists"]


async def _cache_has_pod(case: JsonObject, tmp_path: Path) -> None:
    cache = _cache(tmp_path, case["table"]["claimInfoCache"])
    assert cache.has_pod_reference("test-pod-uid") == case["table"]["expectedResult"]


async def _cache_save(case: JsonObject, tmp_path: Path) -> None:
    cache = ClaimInfoCache(tmp_path, case["table"]["checkpointName"], durable=False)
    cache.add(ClaimInfo("ns", "claim", "uid", ("driver",)))
    await cache.save()
    again = ClaimInfoCache(tmp_path, case["table"]["checkpointName"], durable=False)
    assert [info.key for info in again] == ["ns/claim"]


async def _checkpoint_load(case: JsonObject, tmp_path: Path) -> None:
    table = case["table"]
    if table["checkpointContent"]:
        (tmp_path / "checkpoint").write_text(table["checkpointContent"])
    file = CheckpointFile(tmp_path, "checkpoint", durable=False)
    if table["expectedError"]:
        with pytest.raises(CheckpointError) as raised:
            file.load_or_create()
        assert table["expectedError"] in str(raised.value)
        assert (tmp_path / "checkpoint").read_text() == table["checkpointContent"]
        return
    loaded = file.load_or_create()
    assert list(loaded) == [read_state(data) for data in table.get("expectedClaimInfoStateList") or ()]


async def _checkpoint_store(case: JsonObject, tmp_path: Path) -> None:
    table = case["table"]
    states = [read_state(data) for data in table["claimInfoStateList"]]
    assert encode(states).decode() == table["expectedCheckpointContent"]
    file = CheckpointFile(tmp_path, "checkpoint", durable=False)
    await file.store(lambda: states)
    assert (tmp_path / "checkpoint").read_text() == table["expectedCheckpointContent"]


CHECKS: dict[str, Check] = {
    "TestCheckpointGetOrCreate": _checkpoint_load,
    "TestCheckpointStateStore": _checkpoint_store,
    "TestClaimInfoAddDevice": _add_device,
    "TestClaimInfoAddPodReference": _add_pod,
    "TestClaimInfoCacheAdd": _cache_add,
    "TestClaimInfoCacheContains": _cache_contains,
    "TestClaimInfoCacheDelete": _cache_delete,
    "TestClaimInfoCacheGet": _cache_get,
    "TestClaimInfoCacheHasPodReference": _cache_has_pod,
    "TestClaimInfoDeletePodReference": _delete_pod,
    "TestClaimInfoHasPodReference": _has_pod,
    "TestClaimInfoIsPrepared": _is_prepared,
    "TestClaimInfoSetPrepared": _set_prepared,
    "TestNewClaimInfoCache": _new_cache,
    "TestNewClaimInfoFromClaim": _from_claim,
    "TestNewClaimInfoFromState": _from_state,
    "TestSyncToCheckpoint": _cache_save,
}


@pytest.mark.parametrize("case", cases(CHECKS))
async def test_claim_info_agrees_with_upstream(case: JsonObject, tmp_path: Path) -> None:
    await CHECKS[case["test"]](case, tmp_path)
