"""Event handlers: informer events update the cache, the queue and the DRA objects.

Mirrors upstream's ``pkg/scheduler/eventhandlers.go``. Each handler updates the state first and then moves
pods in the queue, because a pod that is tried immediately must see the change.
"""

import enum
from collections.abc import Callable, Container

from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from dra_shared.api.resources import (
    COMPOSITE_POD_GROUPS,
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from dra_shared.api.scheduling import CompositePodGroup, PodGroup
from dra_shared.client.informer import InformerFactory
from dra_shared.features import FeatureGates
from dra_shared.podgroups import pod_groups
from dra_shared.taintrules import taint_rules

from dra_scheduler.dra.grouptree import minimum_of
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.dra.podgroups import PodGroups, group_key
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.events import Action, Event, Kind
from dra_scheduler.framework.resize import same_resize
from dra_scheduler.queue.entry import Place
from dra_scheduler.queue.scheduling import SchedulingQueue

GROUP_GATES = ("GenericWorkload", "GangScheduling", "DRAWorkloadResourceClaims")


class _Concern(enum.Enum):
    WAITING = enum.auto()  # waiting for this scheduler
    PLACED = enum.auto()  # assigned to a node
    NONE = enum.auto()  # finished, being deleted, or of another scheduler


class EventHandlers:
    """Registers event handlers with the informers. ``scheduler_names`` are the names of the scheduler's profiles.

    ``on_gone`` is called with the uid of each deleted pod, ``on_placed`` with each pod that was bound.
    """

    def __init__(
        self,
        scheduler_names: Container[str],
        cache: Cache,
        queue: SchedulingQueue,
        manager: DRAManager,
        groups: PodGroups,
        on_gone: Callable[[str], None] = lambda uid: None,
        on_placed: Callable[[Pod], None] = lambda pod: None,
    ) -> None:
        self._scheduler_names = scheduler_names
        self._cache = cache
        self._queue = queue
        self._manager = manager
        self._groups = groups
        self._on_gone = on_gone
        self._on_placed = on_placed

    def register(self, informers: InformerFactory, gates: FeatureGates) -> None:
        """Add handlers to all informers that matter with these gates."""
        informers.informer(NODES).add_handler(self._node_added, self._node_updated, self._node_deleted)
        informers.informer(DEVICE_CLASSES).add_handler(
            self._class_added, self._class_updated, self._class_deleted
        )
        self._manager.slices.add_listener(self._slice_changed)
        informers.informer(RESOURCE_SLICES).add_handler(
            self._manager.slices.set_slice,
            lambda _, new: self._manager.slices.set_slice(new),
            lambda old: self._manager.slices.delete_slice(old.metadata.name),
        )
        if (rules := taint_rules(gates)) is not None:
            informers.informer(rules).add_handler(
                self._manager.slices.set_rule,
                lambda _, new: self._manager.slices.set_rule(new),
                lambda old: self._manager.slices.delete_rule(old.metadata.name),
            )
        informers.informer(RESOURCE_CLAIMS).add_handler(
            self._claim_added, self._claim_updated, self._claim_deleted
        )
        if any(gates.enabled(gate) for gate in GROUP_GATES):
            informers.informer(pod_groups(gates.version)).add_handler(
                self._group_added, self._group_updated, self._groups.delete_group
            )
        if gates.enabled("CompositePodGroup"):
            informers.informer(COMPOSITE_POD_GROUPS).add_handler(
                self._composite_added,
                lambda _, new: self._groups.set_group(new),
                self._groups.delete_group,
            )
        informers.informer(PODS).add_handler(
            lambda new: self._pod_changed(None, new), self._pod_changed, self._pod_deleted
        )

    # Pods

    def _concern(self, pod: Pod | None) -> _Concern:
        if pod is None or pod.status.phase in ("Succeeded", "Failed"):
            return _Concern.NONE
        if pod.spec.node_name:
            return _Concern.PLACED
        if pod.spec.scheduler_name in self._scheduler_names and pod.metadata.deletion_timestamp is None:
            return _Concern.WAITING
        return _Concern.NONE

    def _pod_changed(self, old: Pod | None, new: Pod) -> None:
        before, after = self._concern(old), self._concern(new)
        uid = new.metadata.uid
        if after is _Concern.PLACED:
            self._groups.set_pod(new, placed=True)
            self._queue.delete(uid)
            self._cache.nominations.delete(uid)
            self._cache.set_pod(new)
            if before is not _Concern.PLACED:
                self._on_placed(new)
                self._queue.handle_event(Event(Kind.POD, Action.ADD, None, new))
            elif old is not None:
                action = _placed_pod_changes(old, new)
                if action:
                    self._queue.handle_event(Event(Kind.POD, action, old, new))
        elif after is _Concern.WAITING:
            self._groups.set_pod(new, placed=self._cache.is_assumed(uid))
            self._update_nomination(old, new)
            if before is _Concern.WAITING and old is not None:
                self._queue.update(old, new)
            else:
                self._queue.add(new)
                self._group_event(new)
            if old is not None and old.status.nominated_node_name not in ("", new.status.nominated_node_name):
                self._nomination_ended(old)
        else:
            self._groups.delete_pod(new)
            self._queue.delete(uid)
            self._cache.nominations.delete(uid)
            if before is _Concern.PLACED:
                self._cache.remove_pod(uid)
                self._queue.handle_event(Event(Kind.POD, Action.DELETE, old, None))
            else:
                self._assumption_ended(uid)

    def _pod_deleted(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._groups.delete_pod(pod)
        self._queue.delete(uid)
        self._cache.nominations.delete(uid)
        self._on_gone(uid)
        if self._cache.is_assumed(uid):
            self._assumption_ended(uid)
        elif self._cache.place_of(uid) is not None:
            self._cache.remove_pod(uid)
            self._queue.handle_event(Event(Kind.POD, Action.DELETE, pod, None))
        elif pod.status.nominated_node_name:
            self._nomination_ended(pod)

    def _assumption_ended(self, uid: str) -> None:
        """Free the node resources of a deleted assumed pod now. Its binding fails later, which releases its claims."""
        assumed = self._cache.forget(uid)
        if assumed is not None:
            self._queue.handle_event(Event(Kind.POD, Action.DELETE, assumed, None))

    def _nomination_ended(self, pod: Pod) -> None:
        """Retry pods of the same or lower priority, because the node no longer reserves resources for the pod."""
        if not self._cache.is_assumed(pod.metadata.uid):
            event = Event(Kind.POD, Action.DELETE, pod, None)
            self._queue.handle_event(event, priority=pod.spec.priority or 0)

    def _update_nomination(self, old: Pod | None, new: Pod) -> None:
        """Store the nomination from the pod's status.

        A nomination that the scheduler made but has not written yet is kept.
        """
        before = old.status.nominated_node_name if old is not None else ""
        after = new.status.nominated_node_name
        if before != after and not self._cache.is_assumed(new.metadata.uid):
            self._cache.nominations.set(new, after)

    def _group_event(self, pod: Pod) -> None:
        entry = self._queue.get(pod.metadata.uid)
        # As upstream: once a member is popped from the active queue, all members of its group are tried with
        # it.
        if group_key(pod) is not None and (entry is None or entry.place is not Place.ACTIVE):
            self._queue.handle_event(Event(Kind.POD_GROUP, Action.OTHER, None, pod))

    def _group_added(self, group: PodGroup) -> None:
        self._groups.set_group(group)
        self._queue.handle_event(Event(Kind.POD_GROUP, Action.ADD, None, group))

    def _group_updated(self, old: PodGroup, new: PodGroup) -> None:
        self._groups.set_group(new)
        # Since 1.37 the minimum of a gang can be lowered.
        if minimum_of(new) < minimum_of(old):
            self._queue.handle_event(Event(Kind.POD_GROUP, Action.OTHER, old, new))

    def _composite_added(self, group: CompositePodGroup) -> None:
        self._groups.set_group(group)
        self._queue.handle_event(Event(Kind.COMPOSITE_POD_GROUP, Action.ADD, None, group))

    # Nodes

    def _node_added(self, node: Node) -> None:
        self._cache.set_node(node)
        self._queue.handle_event(Event(Kind.NODE, Action.ADD, None, node))

    def _node_updated(self, old: Node, new: Node) -> None:
        self._cache.set_node(new)
        action = _node_changes(old, new)
        if action:
            self._queue.handle_event(Event(Kind.NODE, action, old, new))

    def _node_deleted(self, node: Node) -> None:
        self._cache.remove_node(node.metadata.name)
        self._manager.snapshot.forget_node(node.metadata.name)
        self._queue.handle_event(Event(Kind.NODE, Action.DELETE, node, None))

    # Devices

    def _class_added(self, device_class: DeviceClass) -> None:
        self._manager.set_class(device_class)
        self._queue.handle_event(Event(Kind.DEVICE_CLASS, Action.ADD, None, device_class))

    def _class_updated(self, old: DeviceClass, new: DeviceClass) -> None:
        self._manager.set_class(new)
        self._queue.handle_event(Event(Kind.DEVICE_CLASS, Action.OTHER, old, new))

    def _class_deleted(self, device_class: DeviceClass) -> None:
        self._manager.delete_class(device_class.metadata.name)
        self._queue.handle_event(Event(Kind.DEVICE_CLASS, Action.DELETE, device_class, None))

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        action = Action.ADD if old is None else Action.DELETE if new is None else Action.OTHER
        self._queue.handle_event(Event(Kind.RESOURCE_SLICE, action, old, new))

    def _claim_added(self, claim: ResourceClaim) -> None:
        self._manager.claims.set_claim(claim)
        self._queue.handle_event(Event(Kind.RESOURCE_CLAIM, Action.ADD, None, claim))

    def _claim_updated(self, old: ResourceClaim, new: ResourceClaim) -> None:
        self._manager.claims.set_claim(new)
        self._queue.handle_event(Event(Kind.RESOURCE_CLAIM, Action.OTHER, old, new))

    def _claim_deleted(self, claim: ResourceClaim) -> None:
        self._manager.claims.delete_claim(claim)
        self._queue.handle_event(Event(Kind.RESOURCE_CLAIM, Action.DELETE, claim, None))


def _placed_pod_changes(old: Pod, new: Pod) -> Action:
    action = Action(0)
    if old.metadata.labels != new.metadata.labels:
        action |= Action.POD_LABEL
    if [c.resources for c in old.spec.containers] != [c.resources for c in new.spec.containers] or (
        not same_resize(old, new)
    ):
        action |= Action.POD_SCALE_DOWN
    return action


def _node_changes(old: Node, new: Node) -> Action:
    action = Action(0)
    if old.status.allocatable != new.status.allocatable:
        action |= Action.NODE_ALLOCATABLE
    if old.metadata.labels != new.metadata.labels:
        action |= Action.NODE_LABEL
    if old.spec.taints != new.spec.taints or (old.spec.unschedulable and not new.spec.unschedulable):
        action |= Action.NODE_TAINT
    if old.status.declared_features != new.status.declared_features:
        action |= Action.NODE_FEATURES
    return action
