"""Attributes: a variable and the selections from it, compiled to closures over a frame.

Mirrors cel-go's interpreter/attributes.go. A frame is a list: the device's view, the cost so far, the cost
limit, then the values of local variables. Tracked closures add to the cost, like the observers of cel-go's
interpreter/runtimecost.go. ``matches`` uses untracked closures.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from dra_shared.cel.access import lookup, qualify
from dra_shared.cel.errors import CostLimitExceeded, EvaluationError
from dra_shared.cel.values import NO_OVERLOAD, NONE, OptionalValue, Uint, go_type, reread, unwrap

VIEW: Final = 0
COST: Final = 1
LIMIT: Final = 2
LOCALS: Final = 3

Frame = list[Any]
Run = Callable[[Frame], Any]

_EMPTY: Final[dict[str, Any]] = {}
_KEYS: Final = frozenset((str, int, Uint, bool, float))


def charge(frame: Frame, cost: int) -> None:
    """Add to the frame's cost.

    Raises:
        CostLimitExceeded: the cost is now above the limit.
    """
    frame[COST] += cost
    if frame[COST] > frame[LIMIT]:
        raise CostLimitExceeded


@dataclass(frozen=True, slots=True)
class Qualifier:
    """One selection: a constant key, or the code that computes the key."""

    key: Any
    code: "Run | None" = None
    optional: bool = False
    test: bool = False


@dataclass(frozen=True, slots=True)
class Attribute:
    """A base value and the selections from it.

    ``base`` is the code that returns the base value; None means the device. For a conditional expression (``c ?
    a : b``), ``branches`` has the code of the condition and an attribute for each result.
    """

    base: Run | None
    qualifiers: tuple[Qualifier, ...] = ()
    branches: "tuple[Run, Attribute, Attribute] | None" = None

    def select(self, qualifier: Qualifier) -> "Attribute":
        """Return the attribute with one more selection, added to both branches of a conditional."""
        if self.branches is not None:
            condition, yes, no = self.branches
            return Attribute(None, (), (condition, yes.select(qualifier), no.select(qualifier)))
        return Attribute(self.base, (*self.qualifiers, qualifier))

    @property
    def is_test(self) -> bool:
        """True if the attribute only tests that its last selection exists: `has()`."""
        if self.branches is not None:
            return self.branches[1].is_test
        return bool(self.qualifiers) and self.qualifiers[-1].test


@dataclass(slots=True)
class Code:
    """A compiled expression: a constant, an attribute, or plain code."""

    run: Run
    is_const: bool = False
    value: Any = None
    attribute: Attribute | None = None


def constant(value: Any) -> Code:
    """Return the code of a constant."""
    return Code(lambda frame: value, True, value)


def plain(run: Run) -> Code:
    """Return the code of a closure that is neither a constant nor an attribute."""
    return Code(run)


def attribute_code(attribute: Attribute, *, tracked: bool) -> Code:
    """Return the code that evaluates an attribute."""
    run = resolver(attribute, tracked=tracked)
    if attribute.is_test:
        run = _present(run)
    elif tracked and attribute.branches is None:
        run = _charge_attribute(run)
    return Code(run, attribute=attribute)


def _present(run: Run) -> Run:
    """Return code for has() of an optional: true if the optional has a value."""

    def present(frame: Frame) -> Any:
        value = run(frame)
        return value.present if type(value) is OptionalValue else value

    return present


def refund_attribute(run: Run) -> Run:
    """Return code that subtracts the cost of an attribute, because has() does not charge for it.

    Like upstream, it also subtracts the cost for a conditional, although none was charged for it.
    """

    def refund(frame: Frame) -> Any:
        try:
            return run(frame)
        finally:
            frame[COST] -= 1

    return refund


def _charge_attribute(run: Run) -> Run:
    """Return code that reads an attribute and then adds its cost, even if a selection fails."""

    def evaluate(frame: Frame) -> Any:
        try:
            value = run(frame)
        except EvaluationError:
            charge(frame, 1)
            raise
        charge(frame, 1)
        return value

    return evaluate


def resolver(attribute: Attribute, *, tracked: bool) -> Run:
    """Return code that reads an attribute's value without adding the cost of the read."""
    if attribute.branches is not None:
        condition, yes, no = attribute.branches
        return _conditional(condition, resolver(yes, tracked=tracked), resolver(no, tracked=tracked))
    base, qualifiers = attribute.base, attribute.qualifiers
    if not tracked and all(q.code is None and not q.optional and not q.test for q in qualifiers):
        return _simple(base, [q.key for q in qualifiers])
    if not tracked and attribute.is_test and all(q.code is None and not q.optional for q in qualifiers):
        return _test_key(_simple(base, [q.key for q in qualifiers[:-1]]), qualifiers[-1].key)
    if base is None:
        base = _device
    return _track(base, qualifiers) if tracked else _general(base, qualifiers)


def _conditional(condition: Run, yes: Run, no: Run) -> Run:
    def choose(frame: Frame) -> Any:
        value = condition(frame)
        if value is True:
            return yes(frame)
        if value is False:
            return no(frame)
        raise EvaluationError(NO_OVERLOAD)

    return choose


def _device(frame: Frame) -> Any:
    return frame[VIEW].as_map()


def _driver(frame: Frame) -> Any:
    return frame[VIEW].driver


def _multiple(frame: Frame) -> Any:
    return frame[VIEW].multiple


def _attributes(frame: Frame) -> Any:
    return frame[VIEW].attributes


def _capacity(frame: Frame) -> Any:
    return frame[VIEW].capacity


_FIELDS: Final[dict[str, Run]] = {
    "driver": _driver,
    "allowMultipleAllocations": _multiple,
    "attributes": _attributes,
    "capacity": _capacity,
}


def _simple(base: Run | None, keys: list[Any]) -> Run:
    """Return code for selections with constant keys only, the common case."""
    if base is None:
        if not keys:
            return _device
        first = keys[0]
        if first in ("attributes", "capacity") and len(keys) > 1 and type(keys[1]) is str:
            read = _domain(first, keys[1]) if len(keys) == 2 else _entry(first, keys[1], keys[2])
            return _more(read, keys[3:])
        base, keys = _FIELDS[first], keys[1:]
    return _more(base, keys)


def _domain(field: str, domain: str) -> Run:
    if field == "attributes":
        return lambda frame: frame[VIEW].attributes.get(domain, _EMPTY)
    return lambda frame: frame[VIEW].capacity.get(domain, _EMPTY)


def _entry(field: str, domain: str, key: Any) -> Run:
    if type(key) is not str:
        return _more(_domain(field, domain), [key])
    message = f"no such key: {key}"

    def attribute(frame: Frame) -> Any:
        try:
            return frame[VIEW].attributes[domain][key]
        except KeyError:
            raise EvaluationError(message) from None

    def capacity(frame: Frame) -> Any:
        try:
            return frame[VIEW].capacity[domain][key]
        except KeyError:
            raise EvaluationError(message) from None

    return attribute if field == "attributes" else capacity


def _more(base: Run, keys: list[Any]) -> Run:
    if not keys:
        return _reread(base)
    if len(keys) == 1:
        return _one(base, keys[0])

    def run(frame: Frame) -> Any:
        value = base(frame)
        if type(value) is OptionalValue:
            return _through(value, keys)
        for key in keys:
            value = qualify(value, key)
        return value

    return run


def _reread(base: Run) -> Run:
    def run(frame: Frame) -> Any:
        value = base(frame)
        return reread(value) if type(value) is OptionalValue and value.present else value

    return run


def _one(base: Run, key: Any) -> Run:
    def run(frame: Frame) -> Any:
        value = base(frame)
        kind = type(value)
        if kind is dict and type(key) is str:
            try:
                return value[key]
            except KeyError:
                raise EvaluationError(f"no such key: {key}") from None
        if kind is OptionalValue:
            return _through(value, [key])
        return qualify(value, key)

    return run


def _test_key(base: Run, key: Any) -> Run:
    """Return code for has() of a constant key."""

    def run(frame: Frame) -> Any:
        value = base(frame)
        if type(value) is dict:
            return key in value
        if type(value) is OptionalValue:
            return _through(value, [key])
        return lookup(value, key)[1]

    return run


def _through(value: OptionalValue, keys: list[Any]) -> OptionalValue:
    """Select from an optional. The result is an optional too."""
    if not value.present:
        return value
    current = unwrap(value)
    for key in keys:
        current, found = lookup(current, key)
        if not found:
            return NONE
    return OptionalValue(current)


def _key(qualifier: Qualifier, frame: Frame) -> Any:
    if qualifier.code is None:
        return qualifier.key
    key = qualifier.code(frame)
    if type(key) not in _KEYS:
        raise EvaluationError(f"invalid qualifier type: {go_type(key)}")
    return key


def _general(base: Run, qualifiers: tuple[Qualifier, ...]) -> Run:
    def run(frame: Frame) -> Any:
        value = base(frame)
        optional = False
        if type(value) is OptionalValue:
            if not value.present:
                return value
            if not qualifiers:
                return reread(value)
            optional, value = True, unwrap(value)
        for qualifier in qualifiers:
            key = _key(qualifier, frame)
            if optional or qualifier.optional:
                optional = True
                value, found = lookup(value, key)
                if not found:
                    return NONE
            elif qualifier.test:
                value = lookup(value, key)[1]
            else:
                value = qualify(value, key)
        return OptionalValue(value) if optional else value

    return run


def _track(base: Run, qualifiers: tuple[Qualifier, ...]) -> Run:
    def run(frame: Frame) -> Any:
        value = base(frame)
        optional = False
        if type(value) is OptionalValue:
            if not value.present:
                return value
            if not qualifiers:
                return reread(value)
            optional, value = True, unwrap(value)
        for qualifier in qualifiers:
            if optional or qualifier.optional:
                optional = True
                value, found = lookup(value, _key(qualifier, frame))
                if not found:
                    return NONE
                charge(frame, 1)
                continue
            try:
                key = _key(qualifier, frame)
                value = lookup(value, key)[1] if qualifier.test else qualify(value, key)
            except EvaluationError:
                charge(frame, 1)
                raise
            charge(frame, 1)
        return OptionalValue(value) if optional else value

    return run
