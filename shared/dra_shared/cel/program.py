"""Compile a selector and evaluate it for devices."""

import functools
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from dra_shared.api.resource import DeviceAttribute
from dra_shared.cel import types as t
from dra_shared.cel.attributes import Frame, Run
from dra_shared.cel.checker import check
from dra_shared.cel.compiler import compile_tree, may_panic
from dra_shared.cel.cost_estimator import estimate_cost
from dra_shared.cel.declarations import Functions
from dra_shared.cel.depth import room
from dra_shared.cel.derived import attribute_of
from dra_shared.cel.device import CelDevice
from dra_shared.cel.environment import functions
from dra_shared.cel.errors import (
    CompileError,
    CostLimitExceeded,
    ErrorKind,
    EvaluationError,
    Issue,
    Panic,
    render_issues,
)
from dra_shared.cel.library.patterns import RegexError
from dra_shared.cel.messages import refusal
from dra_shared.cel.parser import ParseFailed, parse
from dra_shared.cel.reads import Read, reads
from dra_shared.cel.suggestions import Catalog
from dra_shared.cel.syntax import Comprehension, Expr, walk
from dra_shared.cel.types import Kind, Type
from dra_shared.cel.validators import validate
from dra_shared.cel.values import OptionalValue, type_name
from dra_shared.features import FeatureGates
from dra_shared.version import DEFAULT, V1_37, V1_38, Version

#: The maximum cost of a selector (resource.k8s.io CELSelectorExpressionMaxCost).
MAX_COST: Final = 1_000_000
#: The maximum length of a selector in bytes (CELSelectorExpressionMaxLength).
MAX_LENGTH: Final = 10 * 1024

_CONSUMABLE: Final = "DRAConsumableCapacity"
_LISTS: Final = "DRAListTypeAttributes"
_TOO_DEEP: Final = "max recursion depth exceeded"
_CANCELLED: Final = "operation cancelled: actual cost limit exceeded"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one evaluation: ``matches`` or the text of an ``error``, and its ``cost``."""

    matches: bool | None
    error: str | None
    cost: int


class Program:
    """A compiled selector. Programs can be shared, because evaluation has no side effects."""

    def __init__(
        self, expression: str, tree: Expr, reading: tuple[bool, bool], known: Functions, estimated_cost: int
    ) -> None:
        self.expression = expression
        #: The worst-case cost in CEL's cost units.
        self.estimated_cost = estimated_cost
        #: The type of the result (``bool``, ``dyn`` or ``google.protobuf.Any``).
        self.output_type = tree.type.declared_name
        found = reads(tree)
        #: The (domain, id) of every attribute that the expression can read; None if that is known only when it runs.
        self.attributes_read: frozenset[Read] | None = None if found is None else found["attributes"]
        #: The same for capacities.
        self.capacity_read: frozenset[Read] | None = None if found is None else found["capacity"]
        #: Whether the cost depends on the order of a map, which upstream leaves to chance.
        self.cost_varies = any(
            isinstance(node, Comprehension) and node.range.type.kind is Kind.MAP for node in walk(tree)
        )
        self._tree = tree
        # Whether attributes that are lists can be read, and whether only those that are read must be valid.
        self._reading = reading
        self._functions = known
        run, length = compile_tree(tree, self._functions, tracked=False, strict=reading[1])
        self._run: Run = run
        self._rest = [0, 0, *([None] * (length - 3))]
        self._accounted: Run | None = None
        # Without cost accounting, evaluation stops at the first error. Upstream may go on and panic.
        if estimated_cost > MAX_COST or may_panic(tree):
            self._run = self._run_limited

    def matches(self, device: CelDevice) -> bool:
        """True if the device is selected. Raises EvaluationError with cel-go's message."""
        frame = [device.view(*self._reading), *self._rest]
        result = _guard(self._run, frame)
        if result is True or result is False:
            return bool(result)
        return _as_bool(result)

    def value(self, device: CelDevice) -> DeviceAttribute:
        """Return the value of a derived attribute for the device. Raises EvaluationError."""
        frame = [device.view(*self._reading), *self._rest]
        return attribute_of(_guard(self._run, frame))

    def cost(self, device: CelDevice) -> int:
        """Return the exact cost of evaluating the expression for this device, also if the evaluation fails."""
        return self.evaluate(device).cost

    def evaluate(self, device: CelDevice) -> Outcome:
        """Evaluate the expression with cost accounting."""
        try:
            view = device.view(*self._reading)
        except EvaluationError as error:
            return Outcome(None, str(error), 0)
        frame: Frame = [view, *self._rest]
        try:
            return Outcome(_as_bool(_guard(self._run_limited, frame)), None, frame[1])
        except EvaluationError as error:
            return Outcome(None, str(error), frame[1])

    def _run_limited(self, frame: Frame) -> Any:
        if self._accounted is None:
            self._accounted, _ = compile_tree(
                self._tree, self._functions, tracked=True, strict=self._reading[1]
            )
        frame[2] = MAX_COST
        return self._accounted(frame)


def _guard(run: Run, frame: Frame) -> Any:
    """Run the code. Convert every failure to an EvaluationError, as cel-go recovers from panics."""
    try:
        return run(frame)
    except EvaluationError:
        raise
    except CostLimitExceeded:
        raise EvaluationError(_CANCELLED) from None
    except RecursionError:
        raise EvaluationError(_TOO_DEEP) from None
    except Exception as problem:
        raise EvaluationError(f"internal error: {problem}") from problem


def _as_bool(result: Any) -> bool:
    value, problem = result, ""
    try:
        while type(value) is OptionalValue and value.present:
            value = value.value
    except EvaluationError as error:
        problem = str(error)
    if type(value) is bool:
        return value
    problem = problem or refusal(value, "bool")
    raise EvaluationError(f"CEL result of type {type_name(result)} could not be converted to bool: {problem}")


def compile_expression(
    expression: str,
    *,
    features: FeatureGates | Collection[str],
    kubernetes: Version = DEFAULT,
    stored: bool = True,
    derived: bool = False,
) -> Program:
    """Return the program of a selector, or of a ``derived`` attribute. Programs are cached.

    ``features`` are the gates, or the names of those that are on (``DRAConsumableCapacity``,
    ``DRAListTypeAttributes``) in the version ``kubernetes``. ``stored`` is for expressions that a stored
    object has already. They may use features of a gate that has been turned off since.

    Raises CompileError with upstream's text and kind.
    """
    if isinstance(features, FeatureGates):
        kubernetes = features.version
        lists, consumable = features.enabled(_LISTS), features.enabled(_CONSUMABLE)
    else:
        lists, consumable = _LISTS in features, _CONSUMABLE in features
    # Since 1.37, stored expressions are typed as if all gates were on.
    typed = lists or (stored and kubernetes >= V1_37)
    mode = _Mode(kubernetes, stored, typed, consumable or stored, lists or stored, derived)
    cached = _short if len(expression) <= _SHORT else _long
    result = cached(expression, mode)
    if isinstance(result, CompileError):
        raise CompileError(result.text, result.kind, result.issues)
    return result


class _Mode(NamedTuple):
    """The settings of a compilation.

    ``stored``: an object has the expression already. ``lists``: attributes are typed as possible lists.
    ``multiple``: devices have ``allowMultipleAllocations``. ``includes``: the member of that name can be called.
    ``derived``: the result is an attribute.
    """

    kubernetes: Version
    stored: bool
    lists: bool
    multiple: bool
    includes: bool
    derived: bool

    @property
    def functions(self) -> Functions:
        """The functions that can be called."""
        # Since 1.38 the environment has `includes` without a gate.
        includes = self.includes or self.kubernetes >= V1_38
        return functions(self.kubernetes, stored=self.stored, includes=includes)

    @property
    def catalog(self) -> Catalog | None:
        """The declared names that messages suggest for a misspelled name; None before 1.38, which suggests none."""
        return None if self.kubernetes < V1_38 else Catalog(("device", *self.functions))

    @property
    def reads_lists(self) -> bool:
        """True if attributes that are lists can be read; since 1.37 they always can."""
        return self.lists or self.kubernetes >= V1_37


def _compile_once(expression: str, mode: _Mode) -> Program | CompileError:
    try:
        with room():
            return _compile(expression, mode)
    except CompileError as error:
        return error


# In characters. A program needs about sixty times the memory of its text, so few long ones are cached.
_SHORT = 1024
LONG_KEPT = 64
_short = functools.lru_cache(maxsize=4096)(_compile_once)
_long = functools.lru_cache(maxsize=LONG_KEPT)(_compile_once)


def _device_fields(lists: bool, multiple: bool) -> dict[str, Type]:
    attribute = t.DYN if lists else t.ANY
    fields = {
        "driver": t.STRING,
        "attributes": t.map_of(t.STRING, t.map_of(t.STRING, attribute)),
        "capacity": t.map_of(t.STRING, t.map_of(t.STRING, t.QUANTITY)),
    }
    if multiple:
        fields["allowMultipleAllocations"] = t.BOOL
    return fields


def _compile_error(expression: str, issues: list[Issue]) -> CompileError:
    text = "compilation failed: " + render_issues(expression, issues)
    return CompileError(text, ErrorKind.INVALID, tuple(issues))


def _check_output(output: Type, lists: bool) -> None:
    """Raise CompileError unless a selector may return values of this type."""
    unknown = (t.ANY, t.DYN) if lists else (t.ANY,)
    if output.nullable or output not in (t.BOOL, *unknown):
        raise CompileError(f"must evaluate to bool or the unknown type, not {output.declared_name}")


def _check_derived(output: Type, lists: bool) -> None:
    """Raise CompileError unless a derived attribute may be of this type."""
    element = output.params[0] if lists and output.kind is Kind.LIST else output
    if not element.nullable and element in (t.BOOL, t.INT, t.STRING, t.ANY, t.DYN, t.SEMVER):
        return
    wanted = "a primitive scalar (string, integer, boolean, semver)"
    if lists:
        wanted += " or a list of these scalars"
    raise CompileError(f"must evaluate to {wanted}, not {output.declared_name}")


def _compile(expression: str, mode: _Mode) -> Program:
    known = mode.functions
    try:
        parsed = parse(expression, sort_by="sort" in known)
        fields = _device_fields(mode.lists, mode.multiple)
        tree, issues = check(parsed, known, fields, catalog=mode.catalog)
        issues = issues or validate(tree)
    except ParseFailed as error:
        raise _compile_error(expression, error.issues) from None
    except RecursionError:
        raise _compile_error(expression, [Issue(-1, _TOO_DEEP)]) from None
    if issues:
        raise _compile_error(expression, issues)
    (_check_derived if mode.derived else _check_output)(tree.type, mode.lists)
    try:
        reading = mode.reads_lists, mode.kubernetes >= V1_38
        return Program(expression, tree, reading, known, estimate_cost(tree, known, mode.kubernetes))
    except (EvaluationError, Panic, RegexError) as error:
        raise CompileError(f"program instantiation failed: {error}", ErrorKind.INTERNAL) from None
    except RecursionError:
        raise _compile_error(expression, [Issue(-1, _TOO_DEEP)]) from None
