"""The cache: every node with its pods, including pods that are assumed there.

A pod that was given a node is *assumed* there at once, before the API server knows; the informer's news confirms it.
What changes is written to a log of node names, so that the equivalence cache re-examines just those nodes.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

from dra_shared.api.node import ContainerImage, Node
from dra_shared.api.pod import Pod

from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.nominations import Nominations
from dra_scheduler.framework.resize import same_resize

_LOG_LENGTH = 1 << 16


class Cache:
    """Nodes and their pods. Not a copy: what an attempt reads between two awaits does not change."""

    def __init__(self) -> None:
        self._infos: dict[str, NodeInfo] = {}
        self._places: dict[str, str] = {}
        self._assumed: set[str] = set()
        # Pods that count as gone for now.
        self._hidden: dict[str, Pod] = {}
        self._log: list[str] = []
        self._start = 0
        self._epoch = 0
        self._generations = itertools.count(1)
        # Pods, anywhere, that have affinities to or against others.
        self.affine_pods = 0
        # How many nodes have an image of that name.
        self.images: Counter[str] = Counter()
        # Nodes with PreferNoSchedule taints.
        self.soft_taints = 0
        self._nodes: list[NodeInfo] | None = None
        self.nominations = Nominations(self.touch)

    def nodes(self) -> list[NodeInfo]:
        """All nodes, in the order in which they came."""
        if self._nodes is None:
            self._nodes = [info for info in self._infos.values() if info.node is not None]
        return self._nodes

    def node(self, name: str) -> NodeInfo | None:
        """The node of that name, if it exists."""
        info = self._infos.get(name)
        return info if info is not None and info.node is not None else None

    def node_objects(self) -> list[Node]:
        """All nodes themselves."""
        return [info.node for info in self.nodes() if info.node is not None]

    def node_object(self, name: str) -> Node | None:
        """The Node itself."""
        info = self._infos.get(name)
        return info.node if info is not None else None

    def pods(self) -> Iterator[Pod]:
        """All pods that have a node or are assumed to."""
        for info in self._infos.values():
            yield from info.pods.values()

    def place_of(self, uid: str) -> str | None:
        """The name of the node that the pod is on or assumed on."""
        return self._places.get(uid)

    def is_assumed(self, uid: str) -> bool:
        """Whether the pod has a node only in the scheduler's opinion as yet."""
        return uid in self._assumed

    @property
    def assumed(self) -> int:
        """How many pods have a node only in the scheduler's opinion as yet."""
        return len(self._assumed)

    # Nodes

    def set_node(self, node: Node) -> None:
        """A node came or changed."""
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
        """A node went; its pods are kept until their own events come."""
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
        # What other nodes score by it changes a little, too: not worth looking at all of them again.
        self.touch(name)

    # Pods

    def assume(self, pod: Pod, node_name: str) -> None:
        """The pod is going to be bound to the node."""
        self._assumed.add(pod.metadata.uid)
        self._place(pod, node_name)

    def forget(self, uid: str) -> Pod | None:
        """The pod is not going to be bound after all; gives it as it was assumed, if it still was."""
        if uid not in self._assumed:
            return None
        self._assumed.discard(uid)
        return self._hidden.pop(uid, None) or self._displace(uid)

    def set_pod(self, pod: Pod) -> None:
        """A pod that has a node came or changed."""
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
        """A pod that had a node is gone, or done and no longer needs it."""
        self._assumed.discard(uid)
        self._hidden.pop(uid, None)
        self._displace(uid)

    def hide(self, uids: Iterable[str]) -> None:
        """Go on as if these pods had left their nodes; news of them are kept."""
        for uid in uids:
            pod = self._displace(uid)
            if pod is not None:
                self._hidden[uid] = pod

    def reveal(self, uids: Iterable[str]) -> None:
        """Have those of these pods back that are hidden, and have not gone meanwhile."""
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
        """Something changed that may change verdicts about the node; None: about any node."""
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
        """Where the log of changes ends now."""
        return self._epoch, self._start + len(self._log)

    def changed_since(self, position: tuple[int, int]) -> set[str] | None:
        """The nodes that changed after ``position``; None: assume that all did."""
        epoch, end = position
        if epoch != self._epoch or end < self._start:
            return None
        return set(self._log[end - self._start :])


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
    """Whether a changed node means the same to placement as before, as after a heartbeat."""
    return (
        old.metadata.labels == new.metadata.labels
        and old.spec == new.spec
        and old.status.allocatable == new.status.allocatable
        and old.status.declared_features == new.status.declared_features
    )


def _counts_the_same(old: Pod, new: Pod) -> bool:
    """Whether a changed pod means the same to other pods' placement as before."""
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
