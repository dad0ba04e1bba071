"""Derived attributes: attributes that a request computes from a device, for the claim's constraints to compare.

Mirrors ``lookupAttribute`` in upstream's ``structured/internal/experimental/allocator_experimental.go`` (1.37).
"""

from collections.abc import Mapping

from dra_shared.api.resource import DeviceAttribute
from dra_shared.cel import CelDevice, CompileError, EvaluationError, compile_expression
from dra_shared.version import Version

from dra_scheduler.allocator.constraints import lookup_attribute
from dra_scheduler.allocator.errors import AllocationError
from dra_scheduler.allocator.pools import PoolDevice

# The maximum number of expressions whose values are cached for a device.
_MAX_VALUES = 64
# The scheduler type-checks expressions as if all gates were on.
_GATES = frozenset(("DRAConsumableCapacity", "DRAListTypeAttributes"))


def attribute_for(
    derived: Mapping[str, str], device: PoolDevice, name: str, kubernetes: Version
) -> DeviceAttribute | None:
    """Return the attribute with that fully qualified name, or None. ``derived`` are the request's derived attributes.

    Raises:
        AllocationError: the request derives the attribute, and evaluation failed.
    """
    expression = derived.get(name)
    if expression is None:
        return lookup_attribute(device, name)
    value = device.derived.get(expression)
    if value is None:
        if len(device.derived) >= _MAX_VALUES:
            device.derived.clear()
        value = device.derived[expression] = _evaluate(expression, device, kubernetes)
    if isinstance(value, DeviceAttribute):
        return value
    compiled, error = value
    if not compiled:
        raise AllocationError(f"compile derived attribute {name} failed: {error}")
    raise AllocationError(f"evaluate derived attribute {name} on device {device.id} failed: {error}")


def _evaluate(expression: str, device: PoolDevice, kubernetes: Version) -> DeviceAttribute | tuple[bool, str]:
    """Return the expression's value.

    If evaluation fails, return the error, and whether the expression could be compiled.
    """
    try:
        program = compile_expression(expression, features=_GATES, kubernetes=kubernetes, derived=True)
    except CompileError as error:
        return False, str(error)
    spec = device.spec
    try:
        return program.value(
            CelDevice(device.id.driver, spec.attributes, spec.capacity, spec.allow_multiple_allocations)
        )
    except EvaluationError as error:
        return True, str(error)
