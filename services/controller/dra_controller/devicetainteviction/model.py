"""The data of the eviction controller: taints with their origin, evictions, work items.

Mirrors pkg/controller/devicetainteviction/device_taint_eviction.go.
"""

from dataclasses import dataclass
from datetime import datetime

from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resource import Device, DeviceTaint, ResourceSlice
from dra_shared.api.taintrule import DeviceTaintRule


@dataclass(frozen=True)
class PodRef:
    """A pod. The uid distinguishes it from earlier pods of the same name."""

    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, meta: ObjectMeta) -> "PodRef":
        return cls(meta.namespace, meta.name, meta.uid)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class RuleRef:
    """A DeviceTaintRule. The uid distinguishes it from earlier rules of the same name."""

    name: str
    uid: str

    @classmethod
    def of(cls, meta: ObjectMeta) -> "RuleRef":
        return cls(meta.name, meta.uid)

    def __str__(self) -> str:
        return self.name


Work = PodRef | RuleRef


@dataclass(frozen=True)
class RuleTaint:
    """A taint that a rule puts on a device."""

    rule: DeviceTaintRule

    @property
    def taint(self) -> DeviceTaint:
        return self.rule.spec.taint

    @property
    def order(self) -> tuple[object, ...]:
        return 0, self.rule.metadata.name

    def __str__(self) -> str:
        return f"DeviceTaintRule {self.rule.metadata.name}"


@dataclass(frozen=True)
class SliceTaint:
    """A taint that a driver published with a device."""

    slice: ResourceSlice
    device: Device
    index: int

    @property
    def taint(self) -> DeviceTaint:
        return self.device.taints[self.index]

    @property
    def order(self) -> tuple[object, ...]:
        spec = self.slice.spec
        return 1, spec.driver, spec.pool.name, self.device.name, self.index

    def __str__(self) -> str:
        spec = self.slice.spec
        device = f"{spec.driver}/{spec.pool.name}/{self.device.name}"
        return f"ResourceSlice {self.slice.metadata.name} {device} taint #{self.index}"


Reason = RuleTaint | SliceTaint


@dataclass(frozen=True)
class Eviction:
    """The time at which pods must be deleted, and the taints that cause it."""

    when: datetime
    reasons: tuple[Reason, ...]

    def __str__(self) -> str:
        return f"{self.when.isoformat()} ({', '.join(map(str, self.reasons))})"


def join(first: Eviction | None, second: Eviction) -> Eviction:
    """Return both evictions as one: the earlier time, and each reason once."""
    if first is None:
        return second
    reasons = {reason.order: reason for reason in (*first.reasons, *second.reasons)}
    ordered = tuple(reason for _, reason in sorted(reasons.items(), key=lambda item: item[0]))
    return Eviction(min(first.when, second.when), ordered)
