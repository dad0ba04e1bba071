"""Derived attributes: what a request computes of a device, for its claim's constraints to compare.

Mirrors ``lookupAttribute`` in upstream's ``structured/internal/experimental/allocator_experimental.go`` (1.37).
"""

from collections.abc import Mapping

from dra_shared.api.resource import DeviceAttribute
from dra_shared.cel import CelDevice, CompileError, EvaluationError, compile_expression

from dra_scheduler.allocator.constraints import lookup_attribute
from dra_scheduler.allocator.errors import AllocationError
from dra_scheduler.allocator.pools import PoolDevice

# How many expressions' values a device keeps.
_MAX_VALUES = 64
# In the scheduler expressions are typed as if all gates were on.
_GATES = frozenset(("DRAConsumableCapacity", "DRAListTypeAttributes"))


def attribute_for(derived: Mapping[str, str], device: PoolDevice, name: str) -> DeviceAttribute | None:
    """The attribute of that fully qualified name, as a request with these ``derived`` ones sees it; None: it has none.

    Raises:
        AllocationError: the request derives it, and that fails.
    """
    expression = derived.get(name)
    if expression is None:
        return lookup_attribute(device, name)
    value = device.derived.get(expression)
    if value is None:
        if len(device.derived) >= _MAX_VALUES:
            device.derived.clear()
        value = device.derived[expression] = _evaluated(expression, device)
    if isinstance(value, DeviceAttribute):
        return value
    compiled, error = value
    if not compiled:
        raise AllocationError(f"compile derived attribute {name} failed: {error}")
    raise AllocationError(f"evaluate derived attribute {name} on device {device.id} failed: {error}")


def _evaluated(expression: str, device: PoolDevice) -> DeviceAttribute | tuple[bool, str]:
    """The value; or whether the expression could be compiled, and what is wrong."""
    try:
        program = compile_expression(expression, features=_GATES, derived=True)
    except CompileError as error:
        return False, str(error)
    spec = device.spec
    try:
        return program.value(
            CelDevice(device.id.driver, spec.attributes, spec.capacity, spec.allow_multiple_allocations)
        )
    except EvaluationError as error:
        return True, str(error)
