"""Evaluation of the CEL selectors of classes and requests. Devices with equal attributes share results."""

import functools
from collections.abc import Callable, Set
from typing import NamedTuple, Protocol

from dra_shared.api.resource import DeviceAttribute
from dra_shared.semver import Semver, SemverError

from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.pools import Pool, PoolDevice

# The maximum number of cached selections for a pool.
_MAX_SELECTIONS = 64
_MAX_PROGRAMS = 1024
_MAX_SHAPES = 4096
# The maximum number of expressions whose verdicts are cached for a device.
_MAX_VERDICTS = 128


class Program(Protocol):
    """A compiled selector."""

    @property
    def attributes_read(self) -> Set[tuple[str | None, str]] | None:
        """Return (domain or None for any, identifier) of each attribute that it may read, or None for all."""

    @property
    def capacity_read(self) -> Set[tuple[str | None, str]] | None:
        """Return (domain or None for any, identifier) of each capacity that it may read, or None if it may read all."""

    def verdict(self, device: PoolDevice) -> bool | str:
        """Return True or False for an accepted or rejected device, or the error text if evaluation failed."""


Compile = Callable[[str], Program]


class _Names(NamedTuple):
    """The attributes and capacities of a device that an expression may read, and those that the device lacks."""

    attributes: tuple[str, ...]
    capacity: tuple[str, ...]
    lacked: tuple[str, ...]


class _Expression:
    """An expression, compiled when it is first needed, and its verdicts by the values that it reads."""

    __slots__ = ("_compile", "_found", "_names", "_program", "_verdicts", "text")

    def __init__(self, text: str, compile_: Compile) -> None:
        self.text = text
        self._compile = compile_
        self._program: Program | None = None
        self._verdicts: dict[object, bool | str] = {}
        # The names that the expression may read from devices of a driver. None if it reads everything.
        self._names: dict[str, tuple[str, ...] | None] = {}
        # By driver and the names that a device has: the names among these that the expression may read.
        self._found: dict[tuple[str, tuple[str, ...], tuple[str, ...]], _Names] = {}

    def verdict(self, device: PoolDevice, *, lists: bool) -> bool | str:
        known = device.verdicts.get(self)
        if known is None:
            if len(device.verdicts) >= _MAX_VERDICTS:
                device.verdicts.clear()
            known = device.verdicts[self] = self._work_out(device, lists)
        return known

    def _work_out(self, device: PoolDevice, lists: bool) -> bool | str:
        program = self._compiled_program()
        shape = self._shape(device, program, lists)
        if shape is None:
            return program.verdict(device)
        known = self._verdicts.get(shape)
        if known is None:
            if len(self._verdicts) >= _MAX_SHAPES:
                self._verdicts.clear()
            known = self._verdicts[shape] = program.verdict(device)
        return known

    def _shape(self, device: PoolDevice, program: Program, lists: bool) -> object:
        """Return a cache key: devices with equal keys get equal verdicts. None if the verdict cannot be shared."""
        driver, spec = device.id.driver, device.spec
        if driver not in self._names:
            self._names[driver] = _names_read(_all_reads(program), driver)
        names = self._names[driver]
        if names is None:
            return None
        if device.well_formed is None:
            device.well_formed = all(_well_formed(attribute, lists) for attribute in spec.attributes.values())
        if not device.well_formed:
            return None
        attributes, capacity = spec.attributes, spec.capacity
        return (
            driver,
            device.allow_multiple,
            tuple([attributes.get(name) for name in names]),
            tuple([capacity[name].value if name in capacity else None for name in names]),
        )

    def _compiled_program(self) -> Program:
        if self._program is None:
            self._program = self._compile(self.text)
        return self._program

    def values_seen(self, device: PoolDevice) -> tuple[tuple[str, str], ...]:
        """Return the names and values of attributes and capacities that the expression may read from the device."""
        spec, names = device.spec, self._names_in(device)
        values = {name: attribute_text(spec.attributes[name]) for name in names.attributes}
        for name in names.capacity:
            values[f"capacity {name}" if name in values else name] = spec.capacity[name].value
        return tuple(values.items())

    def attributes_lacked(self, device: PoolDevice) -> tuple[str, ...]:
        """Return the attributes of the driver's domain that the expression may read and the device lacks."""
        return self._names_in(device).lacked

    def _names_in(self, device: PoolDevice) -> _Names:
        driver, spec = device.id.driver, device.spec
        key = driver, tuple(spec.attributes), tuple(spec.capacity)
        known = self._found.get(key)
        if known is None:
            if len(self._found) >= _MAX_SHAPES:
                self._found.clear()
            known = self._found[key] = _names_in(self._compiled_program(), *key)
        return known


def _names_in(
    program: Program, driver: str, attributes: tuple[str, ...], capacity: tuple[str, ...]
) -> _Names:
    own = [read for read in program.attributes_read or () if read[0] == driver]
    return _Names(
        tuple(name for name in attributes if _is_read(program.attributes_read, name, driver)),
        tuple(name for name in capacity if _is_read(program.capacity_read, name, driver)),
        tuple(
            identifier
            for domain, identifier in sorted(own)
            if not any(_is_named(name, domain, identifier, driver) for name in attributes)
        ),
    )


def _all_reads(program: Program) -> Set[tuple[str | None, str]] | None:
    attributes, capacity = program.attributes_read, program.capacity_read
    return None if attributes is None or capacity is None else attributes | capacity


def _is_read(reads: Set[tuple[str | None, str]] | None, name: str, driver: str) -> bool:
    return reads is None or any(_is_named(name, domain, identifier, driver) for domain, identifier in reads)


def _is_named(name: str, domain: str | None, identifier: str, driver: str) -> bool:
    own_domain, slash, own = name.partition("/")
    if not slash:
        own_domain, own = driver, name
    return own == identifier and (domain is None or own_domain == domain)


def _names_read(reads: Set[tuple[str | None, str]] | None, driver: str) -> tuple[str, ...] | None:
    if reads is None or any(domain is None for domain, _ in reads):
        return None
    names = [f"{domain}/{identifier}" for domain, identifier in reads]
    names.extend(identifier for domain, identifier in reads if domain == driver)
    return tuple(sorted(names))


def _well_formed(attribute: DeviceAttribute, lists: bool) -> bool:
    """True if expressions can be evaluated for a device with the attribute. Otherwise every expression fails."""
    if attribute.string is not None or attribute.int_ is not None or attribute.bool_ is not None:
        scalar = True
    else:
        scalar = attribute.version is not None and _is_version(attribute.version)
    if attribute.ints or attribute.bools or attribute.strings or attribute.versions:
        return lists and all(_is_version(version) for version in attribute.versions)
    return scalar


@functools.lru_cache(maxsize=4096)
def _is_version(text: str) -> bool:
    try:
        Semver.parse(text)
    except SemverError:
        return False
    return True


def attribute_text(attribute: DeviceAttribute) -> str:
    """Format the value of an attribute for people."""
    for value in (attribute.string, attribute.version):
        if value is not None:
            return value
    if attribute.bool_ is not None:
        return str(attribute.bool_).lower()
    if attribute.int_ is not None:
        return str(attribute.int_)
    texts = [*attribute.strings, *attribute.versions, *map(str, attribute.ints)]
    texts.extend(str(value).lower() for value in attribute.bools)
    return f"[{', '.join(texts)}]"


class Rejection:
    """The selector that was false or failed. ``index`` is negative if it is the device's own node selector."""

    __slots__ = ("error", "expression", "index", "of_class")

    def __init__(self, of_class: bool, index: int, expression: str, error: str) -> None:
        self.of_class = of_class
        self.index = index
        self.expression = expression
        self.error = error


# A device to try, its pool, and the selector that fails for it and therefore ends the search.
Candidate = tuple[PoolDevice, Pool, Rejection | None]


class Selection:
    """The selectors of a class followed by those of a request. All of them must accept a device."""

    __slots__ = ("_features", "_of_class", "_of_request")

    def __init__(
        self, features: Features, of_class: tuple[_Expression, ...], of_request: tuple[_Expression, ...]
    ) -> None:
        self._features = features
        self._of_class = of_class
        self._of_request = of_request

    def rejection(self, device: PoolDevice) -> Rejection | None:
        """Return the first selector that is false or fails for the device, or None."""
        lists = self._features.lists_are_readable
        for of_class, expressions in ((True, self._of_class), (False, self._of_request)):
            for index, expression in enumerate(expressions):
                verdict = expression.verdict(device, lists=lists)
                if verdict is not True:
                    return Rejection(of_class, index, expression.text, verdict or "")
        return None

    def values_seen(self, rejection: Rejection, device: PoolDevice) -> tuple[tuple[str, str], ...]:
        """Return the names and values that the selector may have read from the device."""
        expressions = self._of_class if rejection.of_class else self._of_request
        return () if rejection.index < 0 else expressions[rejection.index].values_seen(device)

    def attributes_lacked(self, rejection: Rejection, device: PoolDevice) -> tuple[str, ...]:
        """Return the attributes that the selector may have read and the device does not have."""
        expressions = self._of_class if rejection.of_class else self._of_request
        return () if rejection.index < 0 else expressions[rejection.index].attributes_lacked(device)

    def is_bindable(self, device: PoolDevice) -> bool:
        """True if the device has no binding conditions, or the feature is on."""
        return self._features.device_binding or not device.spec.binding_conditions

    def candidates(self, pool: Pool) -> tuple[Candidate, ...]:
        """Return the pool's devices that are accepted or whose selectors fail, in order."""
        known = pool.selections.get(self)
        if known is None:
            found: list[Candidate] = []
            for device in pool.devices:
                if self.is_bindable(device):
                    rejection = self.rejection(device)
                    if rejection is None or rejection.error:
                        found.append((device, pool, rejection))
            known = tuple(found)
            if len(pool.selections) >= _MAX_SELECTIONS:
                pool.selections.clear()
            pool.selections[self] = known
        return known


class Selectors:
    """Compiled selectors, shared by all claims."""

    def __init__(self, features: Features, compile_: Compile | None = None) -> None:
        self._features = features
        self._compile = compile_ or default_compile(features)
        self._expressions: dict[str, _Expression] = {}
        self._selections: dict[tuple[tuple[str, ...], tuple[str, ...]], Selection] = {}

    def selection(self, of_class: tuple[str, ...], of_request: tuple[str, ...]) -> Selection:
        """Return the selection for these expressions. Equal arguments give the same object."""
        key = (of_class, of_request)
        known = self._selections.get(key)
        if known is None:
            if len(self._selections) >= _MAX_PROGRAMS:
                self._selections.clear()
                self._expressions.clear()
            known = Selection(
                self._features,
                tuple(self._expression(text) for text in of_class),
                tuple(self._expression(text) for text in of_request),
            )
            self._selections[key] = known
        return known

    def _expression(self, text: str) -> _Expression:
        known = self._expressions.get(text)
        if known is None:
            known = self._expressions[text] = _Expression(text, self._compile)
        return known


def default_compile(features: Features) -> Compile:
    """Return a function that compiles with dra_shared.cel, which is imported when the first expression needs it."""

    def compile_(text: str) -> Program:
        from dra_scheduler.allocator.programs import CelProgram

        return CelProgram(text, features)

    return compile_
