"""ResourceSlices with the taints of DeviceTaintRules applied.

Mirrors upstream's ``dynamic-resource-allocation/resourceslice/tracker``.
"""

from collections.abc import Callable

from dra_shared.api.resource import ResourceSlice
from dra_shared.api.taintrule import DeviceTaintRule
from dra_shared.log import logger
from dra_shared.taintcriteria import CriteriaError, TaintCriteria
from dra_shared.taints import apply_rules

_log = logger(__name__)

# The old and new state of the slice; None if it did not or does not exist.
OnChange = Callable[[ResourceSlice | None, ResourceSlice | None], None]


class SliceTracker:
    """All slices, unmodified and with the rules applied.

    Without ``rules_enabled``, rules are ignored. With ``criteria``, rules may also select by class and
    expression. With ``ignore_unselective``, as since 1.37, rules without a selector taint no device. Otherwise they
    taint all. Listeners are called for every change of a slice, and for changes of a rule or class that
    change the taints of one of the slice's devices.
    """

    def __init__(
        self,
        *,
        rules_enabled: bool = True,
        criteria: TaintCriteria | None = None,
        ignore_unselective: bool = False,
    ) -> None:
        self._rules_enabled = rules_enabled
        self._criteria = criteria
        self._ignore_unselective = ignore_unselective
        self._slices: dict[str, ResourceSlice] = {}
        self._patched: dict[str, ResourceSlice] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._listeners: list[OnChange] = []

    def add_listener(self, listener: OnChange) -> None:
        """Call ``listener`` for each change from now on, and once for each known slice."""
        self._listeners.append(listener)
        for piece in self._patched.values():
            listener(None, piece)

    def get(self, name: str) -> ResourceSlice | None:
        """Return the slice of that name, with the rules applied."""
        return self._patched.get(name)

    def list(self) -> list[ResourceSlice]:
        """Return all slices, with the rules applied."""
        return list(self._patched.values())

    def set_slice(self, piece: ResourceSlice) -> None:
        """Add or update a slice."""
        self._slices[piece.metadata.name] = piece
        self._publish(piece.metadata.name, always=True)

    def delete_slice(self, name: str) -> None:
        """Remove a slice."""
        self._slices.pop(name, None)
        old = self._patched.pop(name, None)
        if old is not None:
            self._notify(old, None)

    def set_rule(self, rule: DeviceTaintRule) -> None:
        """Add or update a rule."""
        if self._ignore_unselective and rule.spec.device_selector is None:
            self.delete_rule(rule.metadata.name)
            return
        old = self._rules.get(rule.metadata.name)
        self._rules[rule.metadata.name] = rule
        self._apply(rule, old)

    def delete_rule(self, name: str) -> None:
        """Remove a rule."""
        old = self._rules.pop(name, None)
        if old is not None:
            self._apply(old)

    def update_class(self) -> None:
        """Apply the rules again after a class was added or updated.

        Upstream ignores deleted classes, so nothing is called for these.
        """
        if self._criteria is not None and self._rules_enabled and self._rules:
            for name in self._slices:
                self._publish(name, always=False)

    def _apply(self, *rules: DeviceTaintRule | None) -> None:
        if not self._rules_enabled:
            return
        for name, piece in self._slices.items():
            if any(rule is not None and _concerns(rule, piece) for rule in rules):
                self._publish(name, always=False)

    def _publish(self, name: str, *, always: bool) -> None:
        piece = self._slices[name]
        try:
            patched = self._with_rules(piece)
        except CriteriaError as error:
            _log.error("rules could not be applied to the slice", slice=name, error=str(error))
            return
        old = self._patched.get(name)
        self._patched[name] = patched
        if always or old is None or _taints_differ(old, patched):
            self._notify(old, patched)

    def _with_rules(self, piece: ResourceSlice) -> ResourceSlice:
        if not self._rules_enabled or not self._rules:
            return piece
        return apply_rules(piece, self._rules.values(), self._criteria)

    def _notify(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        for listener in self._listeners:
            listener(old, new)


def _concerns(rule: DeviceTaintRule, piece: ResourceSlice) -> bool:
    selector = rule.spec.device_selector
    if selector is None:
        return True
    return (
        selector.driver in (None, piece.spec.driver)
        and selector.pool in (None, piece.spec.pool.name)
        and (selector.device is None or any(device.name == selector.device for device in piece.spec.devices))
    )


def _taints_differ(old: ResourceSlice, new: ResourceSlice) -> bool:
    return [device.taints for device in old.spec.devices] != [device.taints for device in new.spec.devices]
