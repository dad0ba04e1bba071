"""Placeholders in profiles: ``{name}`` is replaced by a value. A text that is only a placeholder may become an integer.

A placeholder may also be a sum of products of names and numbers, ``{128+8*gpu}``, and may have a minimum
number of digits, ``{cpu:03}``.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

_TERM = r"[A-Za-z0-9][A-Za-z0-9_./-]*"
_PLACEHOLDER = re.compile(rf"\{{({_TERM}(?:[+*]{_TERM})*)(?::0([0-9]))?\}}")


class MissingValue(KeyError):
    """A placeholder has no value. The argument is its name."""


def fill(value: Any, values: Mapping[str, Any]) -> Any:
    """Return ``value`` (text, or data containing texts) with its placeholders replaced.

    A text that is a single placeholder gets the type of its value. All others stay texts. Keys of mappings
    are filled, too.

    Raises:
        MissingValue: a placeholder has no value.
    """
    if isinstance(value, str):
        whole = _PLACEHOLDER.fullmatch(value)
        if whole and not whole[2]:
            return _value(whole[1], values)
        return _PLACEHOLDER.sub(
            lambda match: _text(_value(match[1], values)).zfill(int(match[2] or 0)), value
        )
    if isinstance(value, Mapping):
        return {fill(key, values): fill(inner, values) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [fill(inner, values) for inner in value]
    return value


def fill_texts(texts: tuple[str, ...], values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the texts with placeholders replaced, except those with a placeholder that has no value."""
    filled = []
    for text in texts:
        try:
            filled.append(_text(fill(text, values)))
        except MissingValue:
            continue
    return tuple(filled)


def fill_entries(entries: tuple[dict[str, Any], ...], values: Mapping[str, Any]) -> list[Any]:
    """Return the entries with placeholders replaced, except those with a placeholder that has no value."""
    filled = []
    for entry in entries:
        try:
            filled.append(fill(entry, values))
        except MissingValue:
            continue
    return filled


def _value(expression: str, values: Mapping[str, Any]) -> Any:
    products = [product.split("*") for product in expression.split("+")]
    if products == [[expression]]:
        return _get(expression, values)
    return sum(math.prod(_number(term, values) for term in product) for product in products)


def _number(term: str, values: Mapping[str, Any]) -> int:
    if term.isdigit():
        return int(term)
    value = _get(term, values)
    if isinstance(value, bool) or not isinstance(value, int):
        raise MissingValue(f"{term}, a number")
    return value


def _get(name: str, values: Mapping[str, Any]) -> Any:
    value = values.get(name)
    if value is None:
        raise MissingValue(name)
    return value


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
