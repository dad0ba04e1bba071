"""The cache: every node with its pods, including assumed pods.

A pod that was given a node is *assumed* there at once, before the API server knows. The informer's event
confirms it. Changed nodes are written to a log of names, so that the equivalence cache examines only those
nodes again.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, KeysView

from dra_shared.api.node import ContainerImage, Node
from dra_shared.api.pod import Pod

from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.nominations import Nominations
from dra_scheduler.framework.resize import same_resize

_LOG_LENGTH = 1 << 16


class Cache:
    """Nodes and their pods. An attempt reads it directly and not a snapshot. The data can only change at an await."""

    def __init__(self) -> None:
        self._infos: dict[str, NodeInfo] = {}
        self._places: dict[str, str] = {}
        self._assumed: set[str] = set()
        # Pods that are treated as deleted for now.
        self._hidden: dict[str, Pod] = {}
        self._log: list[str] = []
        self._start = 0
        self._epoch = 0
        self._generations = itertools.count(1)
        # The number of pods with pod affinity or anti-affinity.
        self.affine_pods = 0
        # The number of nodes that have each image.
        self.images: Counter[str] = Counter()
        # The number of nodes with PreferNoSchedule taints.
        self.soft_taints = 0
        self._nodes: list[NodeInfo] | None = None
        self.nominations = Nominations(self.touch)

    def nodes(self) -> list[NodeInfo]:
        """Return all nodes in the order in which they were added."""
        if self._nodes is None:
            self._nodes = [info for info in self._infos.values() if info.node is not None]
        return self._nodes

    def node(self, name: str) -> NodeInfo | None:
        """Return the node with that name, or None."""
        info = self._infos.get(name)
        return info if info is not None and info.node is not None else None

    def node_objects(self) -> list[Node]:
        """Return all Node objects."""
        return [info.node for info in self.nodes() if info.node is not None]

    def node_object(self, name: str) -> Node | None:
        """Return the Node object with that name, or None."""
        info = self._infos.get(name)
        return info.node if info is not None else None

    def pods(self) -> Iterator[Pod]:
        """Return all pods that have a node or are assumed to have one."""
        for info in self._infos.values():
            yield from info.pods.values()

    def place_of(self, uid: str) -> str | None:
        """Return the name of the node that the pod is on or assumed on."""
        return self._places.get(uid)

    def is_assumed(self, uid: str) -> bool:
        """True if the pod is assumed on a node, but not confirmed by the informer yet."""
        return uid in self._assumed

    @property
    def count_assumed(self) -> int:
        """The number of pods that are assumed on a node, but not confirmed by the informer yet."""
        return len(self._assumed)

    # Nodes

    def set_node(self, node: Node) -> None:
        """Add or update a node."""
        info = self._info(node.metadata.name)
        old = info.node
        if old is None:
            self._nodes = None
        self.soft_taints += _has_soft_taint(node) - (old is not None and _has_soft_taint(old))
        self._count_images(info.name, old, node)
        info.set_node(node)
        if old is None or not _same_for_scheduling(old, node):
            self.touch(info.name)

    def remove_node(self, name: str) -> None:
        """Remove a node. Its pods are kept until their own delete events."""
        info = self._infos.get(name)
        if info is None:
            return
        if info.node is not None:
            self._count_images(name, info.node, None)
            self.soft_taints -= _has_soft_taint(info.node)
        info.node = None
        self._nodes = None
        if not info.pods:
            del self._infos[name]
        self.touch(name)

    def _count_images(self, name: str, old: Node | None, new: Node | None) -> None:
        before = old.status.images if old is not None else ()
        after = new.status.images if new is not None else ()
        if before == after:
            return
        for image in _image_names(before):
            self.images[image] -= 1
            if not self.images[image]:
                del self.images[image]
        self.images.update(_image_names(after))
        # The image scores of other nodes also change slightly. To save time, those nodes are not examined
        # again.
        self.touch(name)

    # Pods

    def assume(self, pod: Pod, node_name: str) -> None:
        """Record that the pod is going to be bound to the node."""
        self._assumed.add(pod.metadata.uid)
        self._place(pod, node_name)

    def forget(self, uid: str) -> Pod | None:
        """Record that the pod is not going to be bound. Return the assumed pod, or None if it was not assumed."""
        if uid not in self._assumed:
            return None
        self._assumed.discard(uid)
        return self._hidden.pop(uid, None) or self._displace(uid)

    def set_pod(self, pod: Pod) -> None:
        """Add or update a pod that has a node."""
        uid, node_name = pod.metadata.uid, pod.spec.node_name
        self._assumed.discard(uid)
        if uid in self._hidden:
            self._hidden[uid] = pod
            return
        if self._places.get(uid) == node_name:
            info = self._infos[node_name]
            if _counts_the_same(info.pods[uid], pod):
                info.pods[uid] = pod
                if uid in info.anti_affine:
                    info.anti_affine[uid] = pod
                return
        self._place(pod, node_name)

    def remove_pod(self, uid: str) -> None:
        """Remove a pod that was deleted, or that finished and no longer needs its node."""
        self._assumed.discard(uid)
        self._hidden.pop(uid, None)
        self._displace(uid)

    def hide(self, uids: Iterable[str]) -> None:
        """Treat these pods as if they had left their nodes. Their events are still processed."""
        for uid in uids:
            pod = self._displace(uid)
            if pod is not None:
                self._hidden[uid] = pod

    def reveal(self, uids: Iterable[str]) -> None:
        """Undo :meth:`hide` for those of the pods that were not deleted in the meantime."""
        for uid in uids:
            pod = self._hidden.pop(uid, None)
            if pod is not None:
                self._place(pod, pod.spec.node_name)

    def _place(self, pod: Pod, node_name: str) -> None:
        uid = pod.metadata.uid
        self._displace(uid)
        info = self._info(node_name)
        info.add_pod(pod)
        self._places[uid] = node_name
        self.affine_pods += _is_affine(pod)
        self.touch(node_name)

    def _displace(self, uid: str) -> Pod | None:
        node_name = self._places.pop(uid, None)
        if node_name is None:
            return None
        info = self._infos[node_name]
        pod = info.pods[uid]
        self.affine_pods -= _is_affine(pod)
        info.remove_pod(uid)
        if info.node is None and not info.pods:
            del self._infos[node_name]
        self.touch(node_name)
        return pod

    def _info(self, name: str) -> NodeInfo:
        info = self._infos.get(name)
        if info is None:
            info = self._infos[name] = NodeInfo(name)
        return info

    # Changes

    def touch(self, node_name: str | None) -> None:
        """Log a change that may affect cached verdicts about the node, or about all nodes if ``node_name`` is None."""
        if node_name is None:
            self._epoch += 1
            return
        info = self._infos.get(node_name)
        if info is not None:
            info.generation = next(self._generations)
        self._log.append(node_name)
        if len(self._log) > 2 * _LOG_LENGTH:
            del self._log[:_LOG_LENGTH]
            self._start += _LOG_LENGTH

    @property
    def position(self) -> tuple[int, int]:
        """The current end of the log of changes."""
        return self._epoch, self._start + len(self._log)

    def changed_since(self, position: tuple[int, int]) -> KeysView[str] | None:
        """Return the nodes that changed after ``position``, or None if all of them may have changed.

        The nodes are in the order of their first change. The order decides between equal nodes, so a set would
        make a plan's answer differ between processes.
        """
        epoch, end = position
        if epoch != self._epoch or end < self._start:
            return None
        return dict.fromkeys(self._log[end - self._start :]).keys()


def _is_affine(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and (
        affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None
    )


def _image_names(images: Iterable[ContainerImage]) -> set[str]:
    return {name for image in images for name in image.names}


def _has_soft_taint(node: Node) -> bool:
    return any(taint.effect == "PreferNoSchedule" for taint in node.spec.taints)


def _same_for_scheduling(old: Node, new: Node) -> bool:
    """True if both versions of the node are equal for scheduling, as after a heartbeat."""
    return (
        old.metadata.labels == new.metadata.labels
        and old.spec == new.spec
        and old.status.allocatable == new.status.allocatable
        and old.status.declared_features == new.status.declared_features
    )


def _counts_the_same(old: Pod, new: Pod) -> bool:
    """True if both versions of the pod are equal for the scheduling of other pods."""
    return (
        old.metadata.labels == new.metadata.labels
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        and old.status.node_allocatable_resource_claim_statuses
        == new.status.node_allocatable_resource_claim_statuses
        and (
            old.spec is new.spec
            or (
                old.spec.containers == new.spec.containers
                and old.spec.init_containers == new.spec.init_containers
                and old.spec.resources == new.spec.resources
            )
        )
        and same_resize(old, new)
    )
