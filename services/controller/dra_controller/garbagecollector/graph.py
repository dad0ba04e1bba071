"""Owners and dependents, as far as watches reported them.

A pure data structure: events go in, uids to examine come out through callables. Mirrors graph.go and
graph_builder.go in pkg/controller/garbagecollector: an owner that no watch has reported is a *virtual* node
until the API server is asked.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from dra_shared.api.meta import ObjectMeta, OwnerReference

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


@dataclass(frozen=True)
class Identity:
    """The identity of an object: its kind, namespace and name, and the uid that distinguishes it from earlier
    objects of that name.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.api_version} {self.kind} {where}"


@dataclass
class Node:
    """An object in the graph. ``dependents`` are uids."""

    identity: Identity
    owners: tuple[OwnerReference, ...] = ()
    dependents: set[str] = field(default_factory=set)
    virtual: bool = False
    being_deleted: bool = False
    deleting_dependents: bool = False
    """True while its finalizer makes it wait for the deletion of its blocking dependents."""


class Graph:
    """The graph of owners and dependents (see the docstring of the module).

    ``look`` gets uids to examine, ``orphan`` gets uids whose dependents lose this owner, and ``mismatch``
    gets objects with an owner in another namespace.
    """

    def __init__(
        self,
        look: Callable[[str], None],
        orphan: Callable[[str], None],
        mismatch: Callable[[Identity, OwnerReference], None],
    ) -> None:
        self._look = look
        self._mismatch = mismatch
        self._orphan = orphan
        self._nodes: dict[str, Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, uid: str) -> Node | None:
        return self._nodes.get(uid)

    def dependents(self, node: Node) -> list[Node]:
        """Return the known objects that have ``node`` as an owner."""
        return [self._nodes[uid] for uid in node.dependents if uid in self._nodes]

    def blocking_dependents(self, node: Node) -> list[Node]:
        """Return the dependents that must be gone before ``node`` may be deleted."""
        return [
            dependent
            for dependent in self.dependents(node)
            if any(
                owner.uid == node.identity.uid and owner.block_owner_deletion for owner in dependent.owners
            )
        ]

    def upsert(self, identity: Identity, meta: ObjectMeta) -> None:
        """Add or change the object, which exists in this state."""
        node = self._nodes.get(identity.uid)
        if node is None:
            node = self._nodes[identity.uid] = Node(identity)
        elif node.virtual or node.identity != identity:
            # Dependents whose owner references have another identity must be examined again.
            wrong = node.identity != identity
            node.identity, node.virtual = identity, False
            if wrong:
                self._check_dependents(node)
        self._link(node, meta.owner_references)
        if meta.deletion_timestamp is None:
            return
        node.being_deleted = True
        if ORPHAN in meta.finalizers:
            self._orphan(identity.uid)
        if FOREGROUND in meta.finalizers and not node.deleting_dependents:
            node.deleting_dependents = True
            self._look_all(node.dependents)
            self._look(identity.uid)

    def remove(self, uid: str) -> None:
        """Remove an object that is gone, or a virtual one that does not exist at its place.

        Dependents may disagree about the kind or name of their owner. If others name another one, the node
        gets that identity and stays.
        """
        node = self._nodes.get(uid)
        if node is None:
            return
        elsewhere = self._alternative(node) if node.virtual else None
        if elsewhere is not None:
            for dependent in self.dependents(node):
                if all(_agrees(node.identity, ref, dependent.identity) for ref in _to(node, dependent)):
                    self._look(dependent.identity.uid)
            node.identity = elsewhere
            return
        del self._nodes[uid]
        for reference in node.owners:
            owner = self._nodes.get(reference.uid)
            if owner is None:
                continue
            owner.dependents.discard(uid)
            if owner.virtual and not owner.dependents:
                del self._nodes[reference.uid]
            elif owner.deleting_dependents:
                self._look(reference.uid)
        self._look_all(node.dependents)

    def _link(self, node: Node, owners: tuple[OwnerReference, ...]) -> None:
        uid = node.identity.uid
        before = {owner.uid: owner for owner in node.owners}
        after = {owner.uid: owner for owner in owners}
        node.owners = owners
        for owner_uid, old in before.items():
            owner = self._nodes.get(owner_uid)
            if owner is None:
                continue
            if owner_uid not in after:
                owner.dependents.discard(uid)
            released = owner_uid not in after or (
                old.block_owner_deletion and not after[owner_uid].block_owner_deletion
            )
            if released and owner.deleting_dependents:
                self._look(owner_uid)
        lost_owner = len(after) < len(before)
        for owner_uid, reference in after.items():
            owner = self._nodes.get(owner_uid)
            if owner is None:
                if owner_uid in before:
                    # The owner is gone, and its dependents were examined when it disappeared.
                    continue
                owner = self._nodes[owner_uid] = Node(_owner_identity(reference, node.identity), virtual=True)
                self._look(owner_uid)
            elif not _agrees(owner.identity, reference, node.identity):
                if not owner.virtual:
                    self._report(owner, node, reference)
                self._look(uid)
            if uid not in owner.dependents:
                owner.dependents.add(uid)
                if owner.deleting_dependents:
                    self._look(uid)
        if lost_owner and after:
            self._look(uid)

    def _check_dependents(self, node: Node) -> None:
        for dependent in self.dependents(node):
            for reference in _to(node, dependent):
                if not _agrees(node.identity, reference, dependent.identity):
                    self._report(node, dependent, reference)
                    self._look(dependent.identity.uid)

    def _report(self, owner: Node, dependent: Node, reference: OwnerReference) -> None:
        # A reference with another name or kind may be a mistake; one to another namespace always is.
        if owner.identity.namespace not in ("", dependent.identity.namespace):
            self._mismatch(dependent.identity, reference)

    def _alternative(self, node: Node) -> Identity | None:
        """Return another place of the virtual node according to its dependents: the next one in order."""
        places = sorted(
            {
                _owner_identity(reference, dependent.identity)
                for dependent in self.dependents(node)
                for reference in _to(node, dependent)
                if not _agrees(node.identity, reference, dependent.identity)
            },
            key=_place,
        )
        later = [place for place in places if _place(place) > _place(node.identity)]
        return next(iter(later or places), None)

    def _look_all(self, uids: Iterable[str]) -> None:
        for uid in list(uids):
            self._look(uid)


def _to(owner: Node, dependent: Node) -> list[OwnerReference]:
    return [reference for reference in dependent.owners if reference.uid == owner.identity.uid]


def _place(identity: Identity) -> tuple[str, str, str, str]:
    return identity.api_version, identity.kind, identity.namespace, identity.name


def _owner_identity(reference: OwnerReference, dependent: Identity) -> Identity:
    return Identity(reference.api_version, reference.kind, dependent.namespace, reference.name, reference.uid)


def _agrees(owner: Identity, reference: OwnerReference, dependent: Identity) -> bool:
    """Return True if the reference names the object that has its uid."""
    return (
        owner.kind == reference.kind
        and owner.name == reference.name
        and owner.api_version.rpartition("/")[0] == reference.api_version.rpartition("/")[0]
        and owner.namespace in ("", dependent.namespace)
    )
