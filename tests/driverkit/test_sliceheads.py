"""Events of slices that publishers get from their shared watch."""

from typing import Any

import msgspec
from dra_driverkit.sliceheads import SliceHead, SliceHeads
from dra_shared.client.rest import Client


def _head(name: str, driver: str, node: str | None) -> SliceHead:
    spec: dict[str, Any] = {"driver": driver, "pool": {"name": node or "shared"}}
    if node is not None:
        spec["nodeName"] = node
    return msgspec.convert(
        {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec}, SliceHead
    )


class _Heads(SliceHeads):
    """Slice heads whose events are passed in by the test."""

    def __init__(self) -> None:
        super().__init__(Client("http://127.0.0.1:1"))
        self._synced.set()

    def add(self, head: SliceHead) -> None:
        self._apply(head)

    def went(self, head: SliceHead) -> None:
        self._remove(head.key, head)


async def test_a_publisher_gets_events_of_its_own_slices_only() -> None:
    heads, seen = _Heads(), list[str]()
    heads.add(_head("known", "gpu", "node-0"))
    heads.add(_head("another-node", "gpu", "node-1"))

    def record_change(head: SliceHead) -> None:
        seen.append(f"changed {head.metadata.name}")

    def record_deletion(head: SliceHead) -> None:
        seen.append(f"deleted {head.metadata.name}")

    with heads.follow("gpu", "node-0", record_change, record_deletion):
        heads.add(_head("own", "gpu", "node-0"))
        heads.add(_head("another-driver", "nic", "node-0"))
        heads.add(_head("of-no-node", "gpu", None))
        heads.went(_head("another-node", "gpu", "node-1"))
        heads.went(_head("own", "gpu", "node-0"))
    heads.add(_head("after", "gpu", "node-0"))
    assert seen == ["changed known", "changed own", "deleted own"]


async def test_publishers_of_a_node_get_no_events_of_slices_without_a_node() -> None:
    heads, seen = _Heads(), list[str]()
    with heads.follow("gpu", "", lambda head: seen.append(head.metadata.name), lambda head: None):
        heads.add(_head("of-node", "gpu", "node-0"))
        heads.add(_head("of-no-node", "gpu", None))
    assert seen == ["of-no-node"]


async def test_a_missing_slice_is_known_to_be_absent_only_after_the_first_list() -> None:
    heads = _Heads()
    assert heads.has_none("gpu", "node-0")
    heads.add(_head("own", "gpu", "node-0"))
    assert not heads.has_none("gpu", "node-0")
    assert heads.has_none("gpu", "node-1")
    assert not SliceHeads(Client("http://127.0.0.1:1")).has_none("gpu", "node-0")
