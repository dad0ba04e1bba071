"""Selectors compiled by ``dra_shared.cel`` (upstream's ``cel`` package)."""

from collections.abc import Set

from dra_shared.cel import CelDevice, CompileError, EvaluationError, Program, compile_expression

from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.pools import PoolDevice


class CelProgram:
    """A compiled CEL expression. If it could not be compiled, its evaluation fails for every device."""

    def __init__(self, expression: str, features: Features) -> None:
        self._program: Program | None = None
        self._error = ""
        self._knows_shares = features.knows_shares
        try:
            self._program = compile_selector(expression, features)
        except CompileError as error:
            self._error = f"CEL compile error: {error}"

    @property
    def attributes_read(self) -> Set[tuple[str | None, str]] | None:
        """Return the (domain, identifier) of each attribute that it may read, or None if it may read all."""
        return frozenset() if self._program is None else self._program.attributes_read

    @property
    def capacity_read(self) -> Set[tuple[str | None, str]] | None:
        """Return the (domain, identifier) of each capacity that it may read, or None if it may read all."""
        return frozenset() if self._program is None else self._program.capacity_read

    def verdict(self, device: PoolDevice) -> bool | str:
        """Return True or False for an accepted or rejected device, or the error text if evaluation failed."""
        if self._program is None:
            return self._error
        spec = device.spec
        shared = spec.allow_multiple_allocations if self._knows_shares else None
        try:
            return self._program.matches(CelDevice(device.id.driver, spec.attributes, spec.capacity, shared))
        except EvaluationError as error:
            return f"CEL runtime error: {error}"


def hint(error: str) -> str:
    """Return a hint for errors that are caused by missing attributes (upstream's ``cel/errors.go``, since 1.37)."""
    if "no such key:" not in error:
        return ""
    return (
        ". consider using CEL optional chaining (.? followed by orValue()) "
        "or guarding the check with has() for optional fields"
    )


def compile_selector(expression: str, features: Features) -> Program:
    """Compile a stored selector with the gates of the allocator. Raises CompileError."""
    gates = {
        "DRAConsumableCapacity": features.consumable_capacity,
        "DRAListTypeAttributes": features.list_type_attributes,
    }
    names = frozenset(name for name, on in gates.items() if on)
    return compile_expression(expression, features=names, kubernetes=features.kubernetes)
