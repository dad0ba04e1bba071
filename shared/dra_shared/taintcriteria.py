"""Criteria that only DeviceTaintRules of 1.34 have: a device class, and expressions.

Mirrors ``applyPatches`` of ``resourceslice/tracker/tracker.go`` in Kubernetes 1.34.
"""

from collections.abc import Callable, Iterable

from dra_shared.api.resource import Device, DeviceClass, DeviceSelector
from dra_shared.api.taintrule import DeviceTaintRule
from dra_shared.cel import CelDevice, CompileError, EvaluationError, Program

OnError = Callable[[DeviceTaintRule, str], None]


class CriteriaError(Exception):
    """An expression does not compile. All slices with a device that it would be evaluated for stay unchanged."""


class TaintCriteria:
    """The criteria of rules, for devices that match the other fields of a rule.

    ``classes`` returns a device class by name, and ``compile_`` the program of an expression. ``on_error`` is
    called with a rule and the error of an expression for a device, which is not selected then.
    """

    def __init__(
        self,
        classes: Callable[[str], DeviceClass | None],
        compile_: Callable[[str], Program],
        on_error: OnError = lambda rule, message: None,
    ) -> None:
        self._classes = classes
        self._compile = compile_
        self._on_error = on_error

    def accept(self, rule: DeviceTaintRule, driver: str, device: Device) -> bool:
        """True if the class and the expressions accept the device. Raises CriteriaError."""
        selector = rule.spec.device_selector
        if selector is None:
            return True
        values = CelDevice(driver, device.attributes, device.capacity)
        if (name := selector.device_class_name) is not None:
            device_class = self._classes(name)
            if device_class is None:
                return False
            where = f"DeviceTaintRule {rule.metadata.name}: class {name}"
            if not self._all(device_class.spec.selectors, where, values, lambda message: None):
                return False
        where = f"DeviceTaintRule {rule.metadata.name}"
        return self._all(selector.selectors, where, values, lambda message: self._on_error(rule, message))

    def _all(
        self,
        selectors: Iterable[DeviceSelector],
        where: str,
        values: CelDevice,
        on_error: Callable[[str], None],
    ) -> bool:
        expressions = [selector.cel.expression for selector in selectors if selector.cel is not None]
        for index, expression in enumerate(expressions):
            try:
                if not self._compile(expression).matches(values):
                    return False
            except CompileError as error:
                message = f"{where}: selector #{index}: CEL compile error: {error}"
                raise CriteriaError(message) from None
            except EvaluationError as error:
                on_error(f"selector #{index}: runtime error: {error}")
                return False
        return True
