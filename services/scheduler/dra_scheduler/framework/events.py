"""Cluster events, and the interests of plugins in them.

Mirrors ``ClusterEvent`` and queueing hints in upstream's ``pkg/scheduler/framework``.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dra_shared.api.pod import Pod


class Kind(enum.StrEnum):
    """What changed."""

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
    """How it changed."""

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
    """One change: ``old`` is None for something new, ``new`` for something gone."""

    kind: Kind
    action: Action
    old: Any = None
    new: Any = None


# Whether the event is worth another try for the pod that was rejected.
Hint = Callable[[Pod, Event], bool]
# Under which names the pods are that the event may concern; None: all pods.
Keys = Callable[[Event], tuple[str, ...] | None]


@dataclass(frozen=True, slots=True)
class Interest:
    """Events that may make a pod schedulable that a plugin rejected; without ``hint`` they always may.

    ``keys`` narrows an event to the pods that refer to a certain object: given the event, it returns the names under
    which :meth:`~dra_scheduler.queue.scheduling.SchedulingQueue` has indexed such pods, or None for all of them.
    """

    kind: Kind
    action: Action
    hint: Hint | None = None
    keys: Keys | None = None

    def covers(self, event: Event) -> bool:
        """Whether the event is among these."""
        # The flags' plain values: an enumeration's own arithmetic makes an object of each result.
        actions = self.action._value_ & event.action._value_
        return (self.kind is event.kind and bool(actions)) or event.kind is Kind.ANYTHING
