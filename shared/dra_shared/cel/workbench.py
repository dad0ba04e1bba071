"""Evaluate an expression for devices clause by clause, for authors of selectors.

The whole expression is compiled and evaluated as the scheduler does it. Its clauses are the operands of the
outermost ``&&``. Each is compiled and evaluated by itself, to show which clause rejected a device and which
values it read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from dra_shared.api.resource import Device, DeviceAttribute, ResourceSlice
from dra_shared.cel.device import CelDevice
from dra_shared.cel.errors import CompileError, EvaluationError
from dra_shared.cel.program import MAX_COST, Outcome, Program, compile_expression
from dra_shared.cel.tokens import END, Token, scan
from dra_shared.features import FeatureGates

_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
# Operators that bind less tightly than `&&`. If one of them is outside all brackets, the expression is one
# clause.
_LOOSER = frozenset(("||", "?"))


class Problem(msgspec.Struct, frozen=True, rename="camel"):
    """A compile error: upstream's message, and its offset in code points, or -1."""

    offset: int
    message: str


class Clause(msgspec.Struct, frozen=True, rename="camel"):
    """An operand of the outermost ``&&``: its text, its position, and the number of devices for which it is true."""

    expression: str
    start: int
    end: int
    matches: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device that the expression is evaluated for."""

    driver: str
    pool: str
    node: str
    device: Device


class Finding(msgspec.Struct, frozen=True, rename="camel"):
    """The result for one device.

    For each clause, ``clauses`` has whether it is true, or the error of its evaluation. ``values`` are the
    device's attributes and capacities that the expression may read, as text, by qualified name.
    """

    driver: str
    pool: str
    node: str
    device: str
    matches: bool
    error: str
    cost: int
    clauses: tuple[bool | str, ...]
    values: dict[str, str]


class CelAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The result for all devices. With ``problems``, the expression does not compile and the rest is empty."""

    problems: tuple[Problem, ...] = ()
    estimated_cost: int = 0
    cost_limit: int = MAX_COST
    highest_cost: int = 0
    clauses: tuple[Clause, ...] = ()
    devices: int = 0
    matches: int = 0
    findings: tuple[Finding, ...] = ()


@dataclass(slots=True)
class _Kind:
    """The shared result of devices that the expression cannot distinguish."""

    outcome: Outcome
    clauses: tuple[bool | str, ...]
    values: dict[str, str] = field(default_factory=dict)


def candidates(slices: Iterable[ResourceSlice]) -> list[Candidate]:
    """Return the devices of each pool's newest generation, sorted by driver, pool and name."""
    known = list(slices)
    newest: dict[tuple[str, str], int] = {}
    for one in known:
        pool = (one.spec.driver, one.spec.pool.name)
        newest[pool] = max(newest.get(pool, 0), one.spec.pool.generation)
    found = [
        Candidate(one.spec.driver, one.spec.pool.name, one.spec.node_name or device.node_name or "", device)
        for one in known
        if one.spec.pool.generation == newest[one.spec.driver, one.spec.pool.name]
        for device in one.spec.devices
    ]
    return sorted(found, key=lambda each: (each.driver, each.pool, each.device.name))


def clauses(expression: str) -> list[Clause]:
    """Return the operands of the outermost ``&&``, or the whole expression as one clause."""
    tokens = [token for token in scan(expression).tokens if token.kind != END]
    cuts: list[Token] = []
    depth = 0
    for token in tokens:
        depth += (token.kind in _OPEN) - (token.kind in _CLOSE)
        if depth == 0 and token.kind in _LOOSER:
            cuts = []
            break
        if depth == 0 and token.kind == "&&":
            cuts.append(token)
    return _cut(expression, cuts)


def _cut(expression: str, cuts: Sequence[Token]) -> list[Clause]:
    starts = [0, *(cut.start + 2 for cut in cuts)]
    ends = [*(cut.start for cut in cuts), len(expression)]
    found = []
    for start, end in zip(starts, ends, strict=True):
        text = expression[start:end]
        begin = start + len(text) - len(text.lstrip())
        found.append(Clause(text.strip(), begin, begin + len(text.strip())))
    return found


def evaluate(
    expression: str, candidates: Iterable[Candidate], features: FeatureGates, most: int = 1000
) -> CelAnswer:
    """Evaluate the expression for the devices. At most ``most`` findings are reported, matches first."""
    try:
        program = compile_expression(expression, features=features, stored=False)
    except CompileError as error:
        issues = [Problem(issue.offset, issue.message) for issue in error.issues]
        return CelAnswer(problems=tuple(issues or [Problem(-1, error.text)]))
    parts = clauses(expression)
    programs = [_compile(part.expression, features) for part in parts]
    kinds: dict[tuple[object, ...], _Kind] = {}
    findings: list[Finding] = []
    for candidate in candidates:
        key = _identity(candidate)
        kind = kinds.get(key)
        if kind is None:
            kind = kinds[key] = _evaluate_kind(candidate, program, programs)
        findings.append(_create_finding(candidate, kind))
    findings.sort(key=lambda finding: not finding.matches)
    counts = [sum(finding.clauses[i] is True for finding in findings) for i in range(len(parts))]
    return CelAnswer(
        estimated_cost=program.estimated_cost,
        highest_cost=max((finding.cost for finding in findings), default=0),
        clauses=tuple(
            Clause(part.expression, part.start, part.end, count)
            for part, count in zip(parts, counts, strict=True)
        ),
        devices=len(findings),
        matches=sum(finding.matches for finding in findings),
        findings=tuple(findings[:most]),
    )


def _identity(candidate: Candidate) -> tuple[object, ...]:
    device = candidate.device
    attributes = tuple(sorted((name, repr(value)) for name, value in device.attributes.items()))
    capacity = tuple(sorted((name, str(each.value)) for name, each in device.capacity.items()))
    return candidate.driver, bool(device.allow_multiple_allocations), attributes, capacity


def _compile(expression: str, features: FeatureGates) -> Program | None:
    try:
        return compile_expression(expression, features=features, stored=False)
    except CompileError:
        # A clause may not compile without the rest of the expression, for example inside a `cel.bind`.
        return None


def _evaluate_kind(candidate: Candidate, program: Program, programs: Sequence[Program | None]) -> _Kind:
    device = candidate.device
    values = CelDevice(
        candidate.driver, device.attributes, device.capacity, device.allow_multiple_allocations
    )
    parts = tuple(_part(one, values) for one in programs)
    return _Kind(program.evaluate(values), parts, _read(candidate, program))


def _part(program: Program | None, device: CelDevice) -> bool | str:
    if program is None:
        return "is no expression by itself"
    try:
        return program.matches(device)
    except EvaluationError as error:
        return str(error)


def _read(candidate: Candidate, program: Program) -> dict[str, str]:
    device, driver = candidate.device, candidate.driver
    have = {_qualify(name, driver): _text(value) for name, value in device.attributes.items()}
    sizes = {_qualify(name, driver): str(each.value) for name, each in device.capacity.items()}
    found: dict[str, str] = {}
    for values, read in ((have, program.attributes_read), (sizes, program.capacity_read)):
        names = values if read is None else [f"{domain}/{name}" for domain, name in sorted(read)]
        found.update({name: values[name] for name in names if name in values})
    return found


def value_of(candidate: Candidate, attribute: str) -> str | None:
    """Return the device's value of a qualified attribute name as text; None if it has none."""
    domain, _, name = attribute.rpartition("/")
    found = candidate.device.attributes.get(attribute)
    if found is None and domain == candidate.driver:
        found = candidate.device.attributes.get(name)
    return None if found is None else _text(found)


def _qualify(name: str, driver: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _text(attribute: DeviceAttribute) -> str:
    single = (attribute.string, attribute.version, attribute.int_, attribute.bool_)
    several = (attribute.strings, attribute.versions, attribute.ints, attribute.bools)
    value = next((one for one in single if one is not None), None)
    if value is not None:
        return _plain(value)
    return f"[{', '.join(_plain(one) for many in several for one in many)}]"


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _create_finding(candidate: Candidate, kind: _Kind) -> Finding:
    outcome = kind.outcome
    return Finding(
        candidate.driver,
        candidate.pool,
        candidate.node,
        candidate.device.name,
        outcome.matches is True,
        outcome.error or "",
        outcome.cost,
        kind.clauses,
        kind.values,
    )
