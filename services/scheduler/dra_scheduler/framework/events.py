"""Cluster events, and the interests of plugins in them.

Mirrors ``ClusterEvent`` and queueing hints in upstream's ``pkg/scheduler/framework``.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dra_shared.api.pod import Pod


class Kind(enum.StrEnum):
    """The kind of object that changed."""

    POD = "Pod"
    TARGET_POD = "TargetPod"
    NODE = "Node"
    RESOURCE_CLAIM = "ResourceClaim"
    RESOURCE_SLICE = "ResourceSlice"
    DEVICE_CLASS = "DeviceClass"
    POD_GROUP = "PodGroup"
    COMPOSITE_POD_GROUP = "CompositePodGroup"
    NAMESPACE = "Namespace"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    PERSISTENT_VOLUME = "PersistentVolume"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    CSI_STORAGE_CAPACITY = "CSIStorageCapacity"
    VOLUME_ATTACHMENT = "VolumeAttachment"
    ANYTHING = "*"


class Action(enum.Flag):
    """The kind of change."""

    ADD = enum.auto()
    DELETE = enum.auto()
    NODE_ALLOCATABLE = enum.auto()
    NODE_LABEL = enum.auto()
    NODE_TAINT = enum.auto()
    NODE_CONDITION = enum.auto()
    NODE_FEATURES = enum.auto()
    NODE_OTHER = enum.auto()
    POD_LABEL = enum.auto()
    POD_SCALE_DOWN = enum.auto()
    POD_GATES = enum.auto()
    POD_TOLERATIONS = enum.auto()
    POD_CLAIMS = enum.auto()
    OTHER = enum.auto()
    UPDATE = (
        NODE_ALLOCATABLE | NODE_LABEL | NODE_TAINT | NODE_CONDITION | NODE_FEATURES | NODE_OTHER
        | POD_LABEL | POD_SCALE_DOWN | POD_GATES | POD_TOLERATIONS | POD_CLAIMS | OTHER
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """A change. ``old`` is None for a new object, ``new`` is None for a deleted one."""

    kind: Kind
    action: Action
    old: Any = None
    new: Any = None


# A queueing hint: returns True if the rejected pod should be tried again after the event.
Hint = Callable[[Pod, Event], bool]
# Returns the index names of the pods that the event may concern, or None for all pods.
Keys = Callable[[Event], tuple[str, ...] | None]


@dataclass(frozen=True, slots=True)
class Interest:
    """Events that may make a pod schedulable that a plugin rejected.

    Without ``hint``, each of these events causes a retry. ``keys`` limits an event to the pods that refer to a
    certain object. It returns the names under which :meth:`~dra_scheduler.queue.scheduling.SchedulingQueue` has
    indexed such pods, or None for all of them.
    """

    kind: Kind
    action: Action
    hint: Hint | None = None
    keys: Keys | None = None

    def covers(self, event: Event) -> bool:
        """True if the event is one of these."""
        # Use the flags' plain values, because the enumeration's operators create an object for each result.
        actions = self.action._value_ & event.action._value_
        return (self.kind is event.kind and bool(actions)) or event.kind is Kind.ANYTHING
