"""Compile the rules that an API type declares into one function, like the Go code that validation-gen generates.

For each struct: unions first, then the fields in Go's order. An unchanged field is not validated again, nor
is an unchanged item of a list with keys, or an unchanged value of a map. For a changed field, the
short-circuiting rules come first, then the others, both in the order of their tags' names, then duplicate
keys, then the contents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.declarative.constraints import PLAIN, SHORT_CIRCUIT, Check, Site
from dra_apiserver.common.declarative.structs import Field, Rule, Shape, Stage, encode, fields
from dra_apiserver.common.goshapes import show
from dra_apiserver.errors import FieldError, duplicate, invalid, missing_field
from dra_apiserver.schema import equal, equal_fields, struct_fields
from dra_apiserver.schema import types as schema

ENFORCED = frozenset({Stage.STANDARD, Stage.BETA})
"""The stages of rules whose errors upstream's server returns. Rules of other stages shadow hand-written ones."""

# Rules that define how a list is compared, and not what it may contain.
_LIST_RULES = ("listType", "listMapKey", "unique")
# Rules that apply in one state of a gate.
_CONDITIONS = ("ifDisabled", "ifEnabled")
# Tags that are not rules of a single field: rules of the whole struct or of the field's type, and
# customValidation, which is hand-written code.
_ELSEWHERE = ("customValidation", "dependentRequired", "opaqueType", "optional", "unionMember")
# A subfield is a string in all existing rules.
_SUBFIELD = Shape.TEXT


def replace_covered(
    errors: Iterable[FieldError],
    declared: list[FieldError],
    name: Callable[[str], str] = str,
    never: str = "",
) -> list[FieldError]:
    """Return hand-written errors without those that are also declared, then the declared ones.

    ``name`` converts the path of a declared error to the path in hand-written code. Hand-written errors with
    the detail ``never`` are always kept. Mirrors ValidateDeclarativelyWithMigrationChecks of
    ``k8s.io/apiserver/pkg/registry/rest``.
    """
    covered = Counter((error.type, name(error.field)) for error in declared)
    left = []
    for error in errors:
        place = (error.type, error.field)
        if covered[place] > 0 and (not never or error.detail != never):
            covered[place] -= 1
        else:
            left.append(error)
    return left + declared


class DeclaredRules:
    """The declared rules of one type, such as ``io.k8s.api.resource.v1.ResourceClaim``.

    Raises:
        ValueError: the type declares a rule that this interpreter does not support.
    """

    def __init__(
        self, type_name: str, stages: frozenset[Stage] = ENFORCED, gates: FeatureGates | None = None
    ) -> None:
        self._check = _Compiler(stages, gates or FeatureGates()).struct(type_name)

    def validate(self, obj: JsonObject, old: JsonObject | None = None) -> list[FieldError]:
        """Return the errors of a new object, or of one changed from `old`."""
        if self._check is None:
            return []
        return self._check(obj, old, Site("", old is not None, old is not None))


class _Compiler:
    """Compiles the rules of the given stages, with the given gates."""

    def __init__(self, stages: frozenset[Stage], gates: FeatureGates) -> None:
        self._stages = stages
        self._gates = gates
        # The compiled rules of each struct. A struct that is still being compiled is missing.
        self._made: dict[str, Check | None] = {}
        self._open: set[str] = set()

    def struct(self, name: str) -> Check | None:
        """Return the rules of a struct, or None if it has none. The value must not be None."""
        if name in self._open:
            return lambda value, old, site: check(value, old, site) if (check := self._made[name]) else []
        if name not in self._made:
            self._open.add(name)
            self._made[name] = self._struct(name)
            self._open.remove(name)
        return self._made[name]

    def _struct(self, name: str) -> Check | None:
        known, typed = fields(name), struct_fields(name)
        members = [
            field for field in known if any(rule.name == "unionMember" for rule in self._active_rules(field))
        ]
        checks = [
            (field.name, field.zero, _is_idle(field, asked), check)
            for field in known
            if (check := self._field(field, typed[field.name], asked := self._active_rules(field)))
            is not None
        ]
        by_name = {field.name: field for field in known}
        whole = [
            _dependency(field, by_name[rule.argument])
            for field in known
            for rule in self._active_rules(field)
            if rule.name == "dependentRequired"
        ]
        whole += [_union(members)] if members else []
        if not whole and not checks:
            return None

        def validate(value: JsonObject, old: JsonObject | None, site: Site) -> list[FieldError]:
            errors = [error for check in whole for error in check(value, old, site)]
            prefix = f"{site.path}." if site.path else ""
            update, known = site.update, old is not None
            for field, zero, idle, check in checks:
                # Inlined without calls, because this runs for every field of every object.
                one = value.get(field)
                before = old.get(field) if old is not None else None
                if one is None:
                    one = zero
                if before is None and known:
                    before = zero
                if idle and one == zero and (before is None or before == zero):
                    continue
                errors += check(one, before, Site(prefix + field, update, known))
            return errors

        return validate

    def _active_rules(self, field: Field) -> list[Rule]:
        """Return the rules of a field that apply with the gates, sorted by tag, as in the generated code."""
        found = []
        staged = [(rule, rule.stage_in(self._gates.version)) for rule in field.rules]
        for rule, stage in sorted(staged, key=_outer_tag):
            if stage not in self._stages:
                continue
            if rule.name in _CONDITIONS and rule.inner is not None:
                if self._gates.enabled(rule.argument) == (rule.name == "ifEnabled"):
                    found.append(rule.inner)
            else:
                found.append(rule)
        return found

    def _field(self, field: Field, member: schema.Field, asked: list[Rule]) -> Check | None:
        opaque = any(rule.name == "opaqueType" for rule in asked)
        inner = self.struct(field.inner) if field.inner and not opaque else None
        return _field(field, member, asked, inner, self._hidden_rules(field))

    def _hidden_rules(self, field: Field) -> list[Rule]:
        """Return the short-circuiting rules of other stages. The generated code runs them and discards their errors."""
        staged = ((rule, rule.stage_in(self._gates.version)) for rule in field.rules)
        return [
            rule
            for rule, stage in staged
            if stage is not None and stage not in self._stages and rule.name in SHORT_CIRCUIT
        ]


def _outer_tag(staged: tuple[Rule, Stage | None]) -> str:
    rule, stage = staged
    return (stage.value if stage is not None else "") or rule.name


def _is_idle(field: Field, rules: list[Rule]) -> bool:
    """True if no rule can fail while a field has its zero value in the old and the new object, as most fields do."""
    names = {rule.name for rule in rules}
    if field.pointer:
        return not field.defaulted and not names & {"immutable", "required"}
    return "optional" in names and not field.defaulted and not names & {"immutable", "required", "update"}


def _dependency(trigger: Field, dependent: Field) -> Check:
    """Check that one field is set if another is. Only checked if an update sets or clears one of the two."""
    text = f"must be set when {trigger.name} is set"

    def validate(value: JsonObject, old: JsonObject | None, site: Site) -> list[FieldError]:
        given = [field.has(field.get(value)) for field in (trigger, dependent)]
        if (
            site.update
            and old is not None
            and given == [one.has(one.get(old)) for one in (trigger, dependent)]
        ):
            return []
        return [missing_field(f"{site.path}.{dependent.name}", text)] if given == [True, False] else []

    return validate


def _union(members: list[Field]) -> Check:
    """Check that exactly one member is set. Only checked if an update sets or clears a member."""
    names = ", ".join(f"`{field.name}`" for field in members)

    def validate(value: JsonObject, old: JsonObject | None, site: Site) -> list[FieldError]:
        given = [field.name for field in members if field.has(field.get(value))]
        if site.update and old is not None and given == [f.name for f in members if f.has(f.get(old))]:
            return []
        if not given:
            return [invalid(site.path, "", f"must specify one of: {names}")]
        if len(given) > 1:
            return [invalid(site.path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {names}")]
        return []

    return validate


def _field(
    field: Field,
    member: schema.Field,
    rules: list[Rule],
    inner: Check | None,
    hidden_rules: Iterable[Rule] = (),
) -> Check | None:
    """Return the rules of a field and of the struct in it, for a changed value."""
    hidden = [SHORT_CIRCUIT[rule.name](rule, field) for rule in hidden_rules]
    first = [SHORT_CIRCUIT[rule.name](rule, field) for rule in rules if rule.name in SHORT_CIRCUIT]
    rest = list(_others(field, rules))
    if field.shape is Shape.LIST:
        rest += _list_checks(field, member, rules, inner)
    elif field.shape is Shape.MAP and inner is not None:
        rest.append(_each_value(member, inner))
    elif inner is not None:
        rest.append(inner)
    optional = any(rule.name == "optional" for rule in rules)
    if optional and field.defaulted:
        first.append(SHORT_CIRCUIT["required"](Rule("required"), field))
    if not first and not rest:
        return None
    stops = optional or field.pointer

    def validate(value: Any, old: Any, site: Site) -> list[FieldError]:
        if site.update and site.known and equal_fields(member, value, old):
            return []
        errors: list[FieldError] = []
        for check in first:
            errors += check(value, old, site)
        if errors or (stops and not field.has(value)):
            return errors
        if any(check(value, old, site) for check in hidden):
            return []
        for check in rest:
            errors += check(value, old, site)
        return errors

    return validate


def _others(field: Field, rules: list[Rule]) -> Iterable[Check]:
    subfields: dict[str, list[Rule]] = {}
    for rule in rules:
        if rule.name in PLAIN:
            yield PLAIN[rule.name](rule, field)
        elif rule.name == "eachKey" and rule.inner is not None:
            yield _each_key(PLAIN[rule.inner.name](rule.inner, field))
        elif rule.name == "eachVal" and rule.inner is not None and field.shape is Shape.LIST:
            is_set = any(one.value == "set" for one in rules if one.name in _LIST_RULES)
            yield _each_scalar(PLAIN[rule.inner.name](rule.inner, field), is_set)
        elif rule.name == "eachVal" and rule.inner is not None and field.shape is Shape.MAP:
            yield _each_changed(PLAIN[rule.inner.name](rule.inner, field))
        elif rule.name == "subfield" and rule.inner is not None:
            subfields.setdefault(rule.argument, []).append(rule.inner)
        elif rule.name not in (*SHORT_CIRCUIT, *_LIST_RULES, *_ELSEWHERE):
            raise ValueError(f"{field.name} declares a rule that is not known: {rule.name}")
    for name, inner in subfields.items():
        found = _field(Field(name, _SUBFIELD), schema.Field(name, schema.Scalar.STRING, ""), inner, None)
        if found is not None:
            yield _subfield(Field(name, _SUBFIELD), found)


def _subfield(field: Field, check: Check) -> Check:
    def validate(value: JsonObject, old: JsonObject | None, site: Site) -> list[FieldError]:
        before = field.get(old) if old is not None else None
        return check(
            field.get(value), before, Site(f"{site.path}.{field.name}", site.update, old is not None)
        )

    return validate


def _each_key(check: Check) -> Check:
    """Check every new key of a map. Errors are reported at the map's path."""

    def validate(value: Mapping[str, Any], old: Mapping[str, Any] | None, site: Site) -> list[FieldError]:
        new = (key for key in value if not (site.update and old and key in old))
        return [error for key in new for error in check(key, None, site)]

    return validate


def _each_changed(check: Check) -> Check:
    """Check every value of a map that is new or changed. The values are not structs."""

    def validate(value: Mapping[str, Any], old: Mapping[str, Any] | None, site: Site) -> list[FieldError]:
        new = (key for key in value if not (site.update and old and key in old and old[key] == value[key]))
        return [
            error
            for key in new
            for error in check(value[key], None, Site(f"{site.path}[{key}]", site.update, False))
        ]

    return validate


def _each_scalar(check: Check, is_set: bool) -> Check:
    """Check every item of a list of scalars; of a set, only new items."""

    def validate(value: list[Any], old: list[Any] | None, site: Site) -> list[FieldError]:
        before = old if is_set and site.update and old else ()
        places = (f"{site.path}[{index}]" for index in range(len(value)))
        new = ((item, at) for item, at in zip(value, places, strict=True) if item not in before)
        return [error for item, at in new for error in check(item, None, Site(at, site.update, False))]

    return validate


def _each_value(member: schema.Field, check: Check) -> Check:
    assert isinstance(member.node, schema.MapNode)
    node = member.node.value

    def validate(value: Mapping[str, Any], old: Mapping[str, Any] | None, site: Site) -> list[FieldError]:
        errors: list[FieldError] = []
        for key, one in value.items():
            before = (old or {}).get(key)
            if not (site.update and before is not None and equal(node, one, before)):
                errors += check(one, before, Site(f"{site.path}[{key}]", site.update, before is not None))
        return errors

    return validate


_Key = Callable[[Any], Any]


def _list_checks(
    field: Field, member: schema.Field, rules: list[Rule], inner: Check | None
) -> Iterable[Check]:
    # Old and new items are matched by key even if the rule against duplicates is not enforced at its stage.
    kinds = {rule.value for rule in field.rules if rule.name in ("listType", "unique")}
    names = [rule.value for rule in field.rules if rule.name == "listMapKey"]
    key: _Key | None = None
    if "map" in kinds:
        key = _map_key([one for one in fields(field.inner) if one.name in names])
    elif "set" in kinds:
        key = _item_itself
    if key is not None and any(rule.name in _LIST_RULES and rule.value in ("map", "set") for rule in rules):
        yield _unique(field, key)
    if inner is not None:
        yield _each_item(member, inner, key)


def _map_key(keys: list[Field]) -> _Key:
    def key(item: Any) -> tuple[Any, ...]:
        return tuple(one.get(item) for one in keys)

    return key


def _item_itself(item: Any) -> Any:
    return item


def _unique(field: Field, key: _Key) -> Check:
    def validate(value: list[Any], _: Any, site: Site) -> list[FieldError]:
        seen, errors = set(), []
        for index, item in enumerate(value):
            mark = key(item)
            if mark in seen:
                shown = show(encode(item, field.inner)) if isinstance(item, dict) else item
                errors.append(duplicate(f"{site.path}[{index}]", shown))
            seen.add(mark)
        return errors

    return validate


def _each_item(member: schema.Field, check: Check, key: _Key | None) -> Check:
    """Check every item of a list of structs. If items have keys, check only new and changed ones."""
    assert isinstance(member.node, schema.ListNode)
    node = member.node.item

    def validate(value: list[Any], old: list[Any] | None, site: Site) -> list[FieldError]:
        before = {key(item): item for item in reversed(old)} if key is not None and old else {}
        errors: list[FieldError] = []
        for index, item in enumerate(value):
            earlier = before.get(key(item)) if key is not None else None
            if not (site.update and earlier is not None and equal(node, item, earlier)):
                errors += check(
                    item, earlier, Site(f"{site.path}[{index}]", site.update, earlier is not None)
                )
        return errors

    return validate
