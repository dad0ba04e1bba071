"""ResourceSlices without their devices, watched once for all publishers of a process.

Each publisher only follows the slices of its own driver and node. With thousands of nodes in a process, it
would be too slow if each publisher looked at all slices after each change.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator

import msgspec
from dra_shared.api.meta import Object, Struct
from dra_shared.api.resources import RESOURCE_SLICES, Resource
from dra_shared.client.informer import Informer
from dra_shared.client.rest import Client
from dra_shared.clock import Clock

_BY_OWNER = "owner"


class PoolName(Struct):
    """The pool that a slice is part of."""

    name: str = ""


class SliceOwner(Struct):
    """The owner of a slice."""

    driver: str = ""
    node_name: str | None = None
    pool: PoolName = msgspec.field(default_factory=PoolName)


class SliceHead(Object):
    """A ResourceSlice without its devices: enough to detect a change, and small enough to keep thousands."""

    spec: SliceOwner = msgspec.field(default_factory=SliceOwner)


_Follower = Callable[[SliceHead], None]

_SLICE_HEADS = Resource(
    RESOURCE_SLICES.group,
    RESOURCE_SLICES.version,
    RESOURCE_SLICES.plural,
    RESOURCE_SLICES.kind,
    SliceHead,
    namespaced=False,
)


class SliceHeads(Informer[SliceHead]):
    """The slices that exist, or those that ``field_selector`` selects."""

    def __init__(
        self, client: Client, *, field_selector: str | None = None, clock: Clock | None = None
    ) -> None:
        super().__init__(client, _SLICE_HEADS, field_selector=field_selector, clock=clock)
        self._followers: dict[str, list[tuple[_Follower, _Follower]]] = {}
        self.store.add_index(_BY_OWNER, _owners)
        self.add_handler(self._notify_change, lambda _, new: self._notify_change(new), self._notify_deletion)

    @contextlib.contextmanager
    def follow(self, driver: str, node: str, changed: _Follower, deleted: _Follower) -> Iterator[None]:
        """Call ``changed`` with slices of that driver and node inside the context, starting with the known ones.

        ``node`` is empty for slices that do not belong to a node. ``deleted`` is called with deleted slices.
        """
        owner, follower = _key(driver, node), (changed, deleted)
        self._followers.setdefault(owner, []).append(follower)
        for head in self.store.by_index(_BY_OWNER, owner):
            changed(head)
        try:
            yield
        finally:
            left = self._followers[owner]
            left.remove(follower)
            if not left:
                del self._followers[owner]

    def has_none(self, driver: str, node: str) -> bool:
        """True if there was no slice of that driver and node when the newest event arrived."""
        return self.has_synced and not self.store.by_index(_BY_OWNER, _key(driver, node))

    def _notify_change(self, head: SliceHead) -> None:
        for changed, _ in self._followers.get(_owner(head), ()):
            changed(head)

    def _notify_deletion(self, head: SliceHead) -> None:
        for _, deleted in self._followers.get(_owner(head), ()):
            deleted(head)


def _key(driver: str, node: str) -> str:
    return f"{driver}/{node}"


def _owner(head: SliceHead) -> str:
    return _key(head.spec.driver, head.spec.node_name or "")


def _owners(head: SliceHead) -> Iterable[str]:
    return (_owner(head),)
