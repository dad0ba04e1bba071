"""Taints and tolerations of nodes and of devices, which follow the same rules."""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from dra_shared.api.resource import Device, DeviceTaint, ResourceSlice
from dra_shared.api.taintrule import DeviceTaintRule
from dra_shared.taintcriteria import TaintCriteria

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
NONE = "None"


class Taint(Protocol):
    """Common fields of node taints and device taints."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


class Toleration(Protocol):
    """Common fields of tolerations of node taints and of device taints."""

    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """True if the toleration covers the taint.

    An empty effect covers all effects and an empty key all keys. The caller must check that the taint's
    effect is known (resourceclaim.ToleratesTaint).
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def find_untolerated(
    taints: Iterable[DeviceTaint], tolerations: Iterable[Toleration], *, any_effect: bool = False
) -> DeviceTaint | None:
    """Return the first taint that prevents the allocation of a device and that no toleration covers, or None.

    Unknown effects only count with ``any_effect``.
    """
    covers = tuple(tolerations)
    for taint in taints:
        prevents = any_effect or taint.effect in (NO_SCHEDULE, NO_EXECUTE)
        if prevents and not any(tolerates(t, taint) for t in covers):
            return taint
    return None


def rule_matches(rule: DeviceTaintRule, driver: str, pool: str, device: str) -> bool:
    """True if the rule taints the device. A rule without a selector taints all."""
    selector = rule.spec.device_selector
    return selector is None or (
        (selector.driver is None or selector.driver == driver)
        and (selector.pool is None or selector.pool == pool)
        and (selector.device is None or selector.device == device)
    )


def apply_rules(
    piece: ResourceSlice, rules: Iterable[DeviceTaintRule], criteria: TaintCriteria | None = None
) -> ResourceSlice:
    """Return the slice with the rules' taints added to its devices; the same object if no rule applies.

    Rules add their taints in the given order, after the device's own (resourceslice/tracker). Raises
    CriteriaError.
    """
    driver, pool = piece.spec.driver, piece.spec.pool.name
    candidates = [
        rule
        for rule in rules
        if (selector := rule.spec.device_selector) is None
        or (selector.driver in (None, driver) and selector.pool in (None, pool))
    ]
    if not candidates:
        return piece
    devices = tuple(_add_taints(device, driver, pool, candidates, criteria) for device in piece.spec.devices)
    if all(new is old for new, old in zip(devices, piece.spec.devices, strict=True)):
        return piece
    return msgspec.structs.replace(piece, spec=msgspec.structs.replace(piece.spec, devices=devices))


def _add_taints(
    device: Device,
    driver: str,
    pool: str,
    rules: Iterable[DeviceTaintRule],
    criteria: TaintCriteria | None,
) -> Device:
    added = tuple(
        rule.spec.taint
        for rule in rules
        if rule_matches(rule, driver, pool, device.name)
        and (criteria is None or criteria.accept(rule, driver, device))
    )
    return msgspec.structs.replace(device, taints=device.taints + added) if added else device
