"""What publishers learn of slices from the watch that they share."""

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
    """Its events come from the test."""

    def __init__(self) -> None:
        super().__init__(Client("http://127.0.0.1:1"))
        self._synced.set()

    def appeared(self, head: SliceHead) -> None:
        self._apply(head)

    def went(self, head: SliceHead) -> None:
        self._remove(head.key, head)


async def test_a_publisher_hears_of_its_own_slices_alone() -> None:
    heads, seen = _Heads(), list[str]()
    heads.appeared(_head("known", "gpu", "node-0"))
    heads.appeared(_head("another-node", "gpu", "node-1"))

    def changed(head: SliceHead) -> None:
        seen.append(f"changed {head.metadata.name}")

    def deleted(head: SliceHead) -> None:
        seen.append(f"deleted {head.metadata.name}")

    with heads.follow("gpu", "node-0", changed, deleted):
        heads.appeared(_head("own", "gpu", "node-0"))
        heads.appeared(_head("another-driver", "nic", "node-0"))
        heads.appeared(_head("of-no-node", "gpu", None))
        heads.went(_head("another-node", "gpu", "node-1"))
        heads.went(_head("own", "gpu", "node-0"))
    heads.appeared(_head("after", "gpu", "node-0"))
    assert seen == ["changed known", "changed own", "deleted own"]


async def test_what_is_not_a_nodes_own_is_followed_by_no_node() -> None:
    heads, seen = _Heads(), list[str]()
    with heads.follow("gpu", "", lambda head: seen.append(head.metadata.name), lambda head: None):
        heads.appeared(_head("of-node", "gpu", "node-0"))
        heads.appeared(_head("of-no-node", "gpu", None))
    assert seen == ["of-no-node"]


async def test_that_there_is_none_is_known_after_the_first_list_alone() -> None:
    heads = _Heads()
    assert heads.has_none("gpu", "node-0")
    heads.appeared(_head("own", "gpu", "node-0"))
    assert not heads.has_none("gpu", "node-0")
    assert heads.has_none("gpu", "node-1")
    assert not SliceHeads(Client("http://127.0.0.1:1")).has_none("gpu", "node-0")
