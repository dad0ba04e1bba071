"""The nodes that DRAManager reports when slices change."""

from typing import Any

import msgspec
import pytest
from dra_scheduler.allocator import Features
from dra_scheduler.dra.manager import DRAManager
from dra_shared.api.resource import CounterSet, ResourceSlice
from dra_shared.features import FeatureGates
from dra_shared.version import V1_36, V1_37, Version

from tests.scheduler.objects import piece


def _counters(name: str, *, slices: int, **pool: Any) -> ResourceSlice:
    """Return a slice of the pool ``node-1`` that names the node and has shared counters in place of devices."""
    whole = piece("node-1", 0)
    spec = msgspec.structs.replace(
        whole.spec,
        pool=msgspec.structs.replace(whole.spec.pool, resource_slice_count=slices, **pool),
        shared_counters=(CounterSet(name="set", counters={}),),
    )
    metadata = msgspec.structs.replace(whole.metadata, name=name, uid=name)
    return msgspec.structs.replace(whole, metadata=metadata, spec=spec)


def test_a_changed_slice_is_reported_only_for_its_node() -> None:
    reported: list[str | None] = []
    manager = DRAManager(Features.from_gates(FeatureGates()), on_nodes=reported.append)
    manager.slices.set_slice(piece("node-1", 1))
    assert set(reported) == {"node-1"}


# Until 1.36 upstream shows shared counters to every node.
@pytest.mark.parametrize(("version", "reached"), [(V1_36, None), (V1_37, "node-1")], ids=str)
def test_nodes_are_notified_when_shared_counters_become_incomplete_or_complete_again(
    version: Version, reached: str | None
) -> None:
    reported: list[str | None] = []
    features = Features.from_gates(FeatureGates(version), version)
    manager = DRAManager(features, on_nodes=reported.append)
    manager.slices.set_slice(_counters("one", slices=1))
    reported.clear()
    manager.slices.set_slice(_counters("one", slices=2))
    assert set(reported) == {reached}
    reported.clear()
    manager.slices.set_slice(_counters("one", slices=1))
    assert set(reported) == {reached}
    reported.clear()
    manager.slices.set_slice(_counters("one", slices=1, generation=2))
    assert set(reported) == {"node-1"}
