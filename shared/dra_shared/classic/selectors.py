"""Convert selectors of classic parameters: matchLabels and matchExpressions, and NVIDIA's own tree of conditions."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dra_shared.classic.drivers import NVIDIA, Driver, Type
from dra_shared.classic.expressions import Inexpressible, Key, compare, of_type, one_of
from dra_shared.classic.fields import Fields

_SIGNS = {
    "gt": ">",
    "greaterthan": ">",
    "ge": ">=",
    "gte": ">=",
    "greaterthanorequalto": ">=",
    "lt": "<",
    "lessthan": "<",
    "le": "<=",
    "lte": "<=",
    "lessthanorequalto": "<=",
    "eq": "==",
    "equals": "==",
    "=": "==",
    "==": "==",
}
_AND = "andExpression"
_EMPTY = "an empty selector matches nothing"
_NO_SELECTOR = "v1's selectors are CEL expressions, and dralab does not know this part of an old selector"


def conditions(fields: Fields, driver: Driver, where: str) -> list[str]:
    """Return a selector's conditions, all of which a device must satisfy.

    ``where`` is their place in the new object.
    """
    found = _labels(fields, driver, where)
    for entry in fields.each("matchExpressions"):
        found += _note(entry, partial(_expression, entry, driver), where)
    if set(fields.content) - {"matchLabels", "matchExpressions"}:
        found += _conjuncts(fields, driver, where)
    return found


def _conjuncts(fields: Fields, driver: Driver, where: str) -> list[str]:
    """Return the conditions of NVIDIA's tree that must all hold.

    One that cannot be expressed does not affect the others.
    """
    if _AND not in fields.content:
        return _note(fields, lambda: _tree(fields, driver), where)
    entries = fields.each(_AND)
    if not entries:
        fields.note_lost(_AND, _EMPTY)
    return [condition for entry in entries for condition in _conjuncts(entry, driver, where)]


def _labels(fields: Fields, driver: Driver, where: str) -> list[str]:
    labels = fields.inner("matchLabels")
    found: list[str] = []
    for name in labels.content:
        value = _word(labels.take(name))
        try:
            found.append(one_of(Key(driver, name), [value]))
        except Inexpressible as error:
            labels.note_lost(name, str(error))
        else:
            labels.note_moved(name, f"{where}: {found[-1]}")
    return found


def _note(fields: Fields, make: Callable[[], str], where: str) -> list[str]:
    try:
        expression = make()
    except Inexpressible as error:
        fields.note_lost("", str(error))
        return []
    fields.note_moved("", f"{where}: {expression}")
    return [expression]


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _expression(fields: Fields, driver: Driver) -> str:
    """Convert one entry of matchExpressions."""
    name, operator = fields.text("key"), fields.text("operator")
    raw = fields.take("values")
    values = [_word(value) for value in (raw if isinstance(raw, list) else [raw]) if value is not None]
    key = Key(driver, name)
    if operator in ("Exists", "DoesNotExist"):
        exists = key.exists(key.type_for(()))
        return exists if operator == "Exists" else f"!{exists}"
    if not values:
        raise Inexpressible(f"operator {operator} without values")
    sign = _SIGNS.get(operator.lower())
    if sign is not None:
        if len(values) != 1:
            raise Inexpressible(f"operator {operator} takes one value")
        return compare(key, sign, values[0])
    if operator == "In":
        return one_of(key, values)
    if operator == "NotIn":
        return f"!({one_of(key, values)})"
    raise Inexpressible(f"operator {operator!r} is not known")


def _tree(fields: Fields, driver: Driver) -> str:
    """Convert NVIDIA's selector: one property, or a list of selectors joined by and, or by or."""
    for name, sign in ((_AND, "&&"), ("orExpression", "||")):
        if name in fields.content:
            parts = [_tree(entry, driver) for entry in fields.each(name)]
            return _join(parts, sign)
    properties = [name for name in fields.content if name not in ("matchLabels", "matchExpressions")]
    if not properties:
        raise Inexpressible(_EMPTY)
    return _join([_property(driver, name, fields.take(name)) for name in properties], "&&")


def _join(parts: Sequence[str], sign: str) -> str:
    if not parts:
        raise Inexpressible(_EMPTY)
    return parts[0] if len(parts) == 1 else f" {sign} ".join(f"({part})" for part in parts)


def _property(driver: Driver, name: str, value: Any) -> str:
    if driver is NVIDIA and name == "migEnabled":
        if value is True:
            raise Inexpressible("a GPU in MIG mode is only published as its MIG devices")
        return of_type(driver, "gpu")
    key = Key(driver, name)
    if isinstance(value, dict):
        sign = _SIGNS.get(str(value.get("operator", "")).lower())
        if sign is None or "value" not in value:
            raise Inexpressible(_NO_SELECTOR)
        return compare(key, sign, _word(value["value"]))
    if isinstance(value, list) or value is None:
        raise Inexpressible(_NO_SELECTOR)
    if key.type_for([_word(value)]) in (Type.VERSION, Type.QUANTITY, Type.INT):
        return compare(key, "==", _word(value))
    return one_of(key, [_word(value)])
