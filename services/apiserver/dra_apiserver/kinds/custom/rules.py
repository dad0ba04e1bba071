"""``x-kubernetes-validations``: the CEL rules of a definition's schema, compiled once and evaluated for objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dra_shared.cel import CompileError, EvaluationError
from dra_shared.cel import types as t
from dra_shared.cel.rules import Rule, compile_rule
from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import OMIT_VALUE, ErrorType, FieldError
from dra_apiserver.kinds.custom.celtypes import Structs, add_root_fields, declare, value_of
from dra_apiserver.kinds.custom.correlation import ABSENT, correlate

Schema = Mapping[str, Any]

_CALL_COST = 1_000_000
_OBJECT_COST = 10_000_000
_REASONS = {
    "FieldValueForbidden": ErrorType.FORBIDDEN,
    "FieldValueRequired": ErrorType.REQUIRED,
    "FieldValueDuplicate": ErrorType.DUPLICATE,
}
_OVERLOAD = "no such overload"
_TOO_COSTLY = "operation cancelled: actual cost limit exceeded"
_OUT_OF_BUDGET = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


@dataclass(slots=True)
class Compiled:
    """A rule compiled from its `source`, or its error."""

    source: JsonObject
    rule: Rule | None = None
    message: Rule | None = None
    problem: str = ""
    message_problem: str = ""


@dataclass(slots=True)
class Rules:
    """The rules of a schema and of its sub-schemas."""

    schema: Schema
    own: list[Compiled] = field(default_factory=list)
    properties: dict[str, Rules] = field(default_factory=dict)
    extra: Rules | None = None
    items: Rules | None = None
    loops: bool = False
    """True if a rule here or below loops over lists or maps."""

    @property
    def empty(self) -> bool:
        """True if there is no rule here or below."""
        return not (self.own or self.properties or self.extra or self.items)


def compile_rules(schema: Schema, *, root: bool = False) -> Rules:
    """Compile the rules of a schema. `root`: it is the schema of a whole object."""
    made = Rules(schema)
    if schema.get("x-kubernetes-validations"):
        made.schema = add_root_fields(schema) if root else schema
        made.own = compile_own(schema, root=root)
    for name, below in (schema.get("properties") or {}).items():
        found = compile_rules(below)
        if not found.empty:
            made.properties[name] = found
    for key in ("additionalProperties", "items"):
        below = schema.get(key)
        if isinstance(below, Mapping):
            found = compile_rules(below)
            if not found.empty:
                setattr(made, "extra" if key == "additionalProperties" else "items", found)
    own = [rule for one in made.own for rule in (one.rule, one.message) if rule is not None]
    inner = [*made.properties.values(), *filter(None, (made.extra, made.items))]
    made.loops = any(rule.loops for rule in own) or any(rules.loops for rules in inner)
    return made


def compile_own(schema: Schema, *, root: bool = False) -> list[Compiled]:
    """Compile the rules of the schema itself, without those of its sub-schemas."""
    structs: Structs = {}
    kind = declare(add_root_fields(schema) if root else schema, "object", structs) or t.DYN
    return [_compile(one, kind, structs) for one in schema.get("x-kubernetes-validations") or ()]


def _compile(source: JsonObject, kind: t.Type, structs: Structs) -> Compiled:
    made = Compiled(source)
    both = {"self": kind, "oldSelf": t.optional_of(kind) if source.get("optionalOldSelf") else kind}
    try:
        made.rule = compile_rule(source.get("rule", ""), both, structs)
    except CompileError as error:
        made.problem = _format_error(error, "cel expression ")
    if made.rule is not None and source.get("messageExpression"):
        try:
            made.message = compile_rule(source["messageExpression"], both, structs, t.STRING)
        except CompileError as error:
            made.message_problem = f"messageExpression {error}"
    return made


def _format_error(error: CompileError, subject: str) -> str:
    return f"{subject}{error}" if error.text.startswith("must evaluate") else error.text


class _Same:
    """A key for a schema that compares by identity."""

    __slots__ = ("schema",)

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.schema is self.schema


_MOST_KNOWN = 256
_known: dict[_Same, Rules] = {}


def _get_compiled(schema: Schema) -> Rules:
    key = _Same(schema)
    found = _known.get(key)
    if found is None:
        found = compile_rules(schema, root=True)
        while len(_known) >= _MOST_KNOWN:
            _known.pop(next(iter(_known)), None)
        _known[key] = found
    return found


def takes_long(schema: Schema) -> bool:
    """True if validating even a small object may take long: the rules are not compiled yet, or loop over lists."""
    found = _known.get(_Same(schema))
    return found is None or found.loops


def has_rules(schema: Schema) -> bool:
    """True if the schema has a rule at any level."""
    return not _get_compiled(schema).empty


def check_rules(schema: Schema, obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Return the errors of the rules that ``obj`` violates. `old` is the replaced object."""
    rules = _get_compiled(schema)
    if rules.empty:
        return []
    run = _Run()
    return list(run.check(rules, obj, ABSENT if old is None else old, ""))


class _Run:
    """The evaluation of rules for one object, with a shared cost budget."""

    def __init__(self) -> None:
        self._budget = _OBJECT_COST

    def check(self, rules: Rules, value: Any, old: Any, path: str) -> Iterator[FieldError]:
        """Yield the errors of a value and of its members."""
        if value is None or self._budget < 0:
            return
        if rules.own:
            yield from self._own(rules, value, old, path)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            for name, one in value.items():
                below = rules.properties.get(name)
                if below is not None:
                    at = f"{path}.{name}" if path else name
                    yield from self.check(below, one, before.get(name, ABSENT), at)
                elif rules.extra is not None and name not in (rules.schema.get("properties") or {}):
                    yield from self.check(rules.extra, one, before.get(name, ABSENT), f"{path}[{name}]")
        elif isinstance(value, list) and rules.items is not None:
            known = correlate(rules.schema, old)
            for index, one in enumerate(value):
                yield from self.check(rules.items, one, known(one), f"{path}[{index}]")

    def _own(self, rules: Rules, value: Any, old: Any, path: str) -> Iterator[FieldError]:
        kind = rules.schema.get("type", "")
        shown = OMIT_VALUE if kind in ("object", "array") else value
        now = value_of(rules.schema, value)
        before = None if old is ABSENT or old is None else value_of(rules.schema, old)
        for one in rules.own:
            if one.rule is None:
                yield FieldError(ErrorType.INVALID, path, kind, f"rule compile error: {one.problem}")
                continue
            optional = bool(one.source.get("optionalOldSelf"))
            transition = "oldSelf" in one.rule.mentioned
            if transition and before is None and not optional:
                continue
            values = [now, _optional(before) if optional else before]
            try:
                result = self._evaluate(one.rule, values)
            except EvaluationError as error:
                yield FieldError(ErrorType.INVALID, path, kind, _failure(str(error), one.source))
                if self._budget < 0:
                    return
                continue
            if result is True or (not transition and old is not ABSENT and old == value):
                # A value that is unchanged may violate a newer rule.
                continue
            where = path + (one.source.get("fieldPath") or "")
            detail = self._message(one, values) or _default_message(one.source)
            reason = _REASONS.get(one.source.get("reason") or "", ErrorType.INVALID)
            yield FieldError(reason, where.removeprefix("."), shown, detail)

    def _evaluate(self, rule: Rule, values: list[Any]) -> Any:
        if self._budget == 0:
            self._budget = -1
            raise EvaluationError(_OUT_OF_BUDGET)
        try:
            result, cost = rule.evaluate(values, min(_CALL_COST, self._budget))
        except EvaluationError as error:
            if str(error) == _TOO_COSTLY:
                self._budget = -1
            raise
        self._budget -= cost
        return result

    def _message(self, one: Compiled, values: list[Any]) -> str:
        """Return the result of the message expression; empty if it fails or has several lines."""
        if one.message is None:
            return ""
        try:
            text = str(self._evaluate(one.message, values)).strip()
        except EvaluationError:
            return ""
        return "" if "\n" in text else text


def _optional(value: Any) -> Any:
    from dra_shared.cel.values import NONE, OptionalValue

    return NONE if value is None else OptionalValue(value)


def _default_message(source: JsonObject) -> str:
    if source.get("message"):
        return str(source["message"]).strip()
    return f"failed rule: {str(source.get('rule', '')).strip()}"


def _shown_rule(source: JsonObject) -> str:
    return str(source.get("message") or source.get("rule", "")).strip()


def _failure(text: str, source: JsonObject) -> str:
    if text == _OUT_OF_BUDGET:
        return text
    if text.startswith(_OVERLOAD):
        return (
            f"'{text}': call arguments did not match a supported operator, function or macro signature "
            f"for rule: {_shown_rule(source)}"
        )
    if text == _TOO_COSTLY:
        return (
            f"'{text}': no further validation rules will be run due to call cost exceeds limit "
            f"for rule: {_shown_rule(source)}"
        )
    return f"{text} evaluating rule: {_shown_rule(source)}"
