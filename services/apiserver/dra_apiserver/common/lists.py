"""Validate lists, sets and maps: first their size, then each entry, then duplicates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import orjson

from dra_apiserver.errors import FieldError, duplicate, too_many

T = TypeVar("T")
Check = Callable[[T, str], Iterable[FieldError]]


def find_repeated(items: Iterable[Any]) -> set[int]:
    """Return the positions of those items that are equal to an earlier one."""
    seen, places = set(), set()
    for index, item in enumerate(items):
        mark = item if isinstance(item, str | int) else orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
        if mark in seen:
            places.add(index)
        seen.add(mark)
    return places


def check_list(
    items: Sequence[T] | None, limit: int | None, check: Check[T], path: str, *, thorough: bool = False
) -> list[FieldError]:
    """Return the errors of each entry.

    If there are more than `limit` entries, only that is reported, unless the check is `thorough`.
    """
    items = items or ()
    errors: list[FieldError] = []
    if limit is not None and len(items) > limit:
        errors.append(too_many(path, len(items), limit))
        if not thorough:
            return errors
    for index, item in enumerate(items):
        errors.extend(check(item, f"{path}[{index}]"))
    return errors


def check_set(
    items: Sequence[T] | None,
    limit: int | None,
    check: Check[T],
    key: Callable[[T], Any],
    path: str,
    *,
    thorough: bool = False,
    member: str = "",
) -> list[FieldError]:
    """Validate like `check_list`, and check that keys are unique.

    A key may be a pair of the compared and the printed value.

    A duplicate key is reported at its entry, or at the entry's `member`.
    """
    items = items or ()
    errors = check_list(items, limit, check, path, thorough=thorough)
    if limit is not None and len(items) > limit and not thorough:
        return errors
    suffix = f".{member}" if member else ""
    seen = set()
    for index, item in enumerate(items):
        value = key(item)
        compared, shown = value if isinstance(value, tuple) else (value, value)
        if compared in seen:
            errors.append(duplicate(f"{path}[{index}]{suffix}", shown))
        seen.add(compared)
    return errors


def check_map(
    entries: Mapping[str, T] | None,
    limit: int | None,
    shown_length: int,
    check_key: Check[str],
    check: Check[T],
    path: str,
    *,
    thorough: bool = False,
    keyed: bool = False,
) -> list[FieldError]:
    """Return the errors of each key and value. Errors of keys are at the map's own path, or with `keyed` at the key's.

    Long keys are shortened in paths.
    """
    entries = entries or {}
    errors: list[FieldError] = []
    if limit is not None and len(entries) > limit:
        errors.append(too_many(path, len(entries), limit))
        if not thorough:
            return errors
    for key, value in entries.items():
        at = f"{path}[{_shorten(key, shown_length)}]"
        errors.extend(check_key(key, at if keyed else path))
        errors.extend(check(value, at))
    return errors


def _shorten(text: str, limit: int) -> str:
    limit = max(limit, 16)
    data = text.encode()
    if len(data) <= limit:
        return text
    remaining = limit - 3
    shortened = data[: (remaining + 1) // 2] + b"..." + data[len(data) - remaining // 2 :]
    # The cut may split a UTF-8 character. Go's JSON then has the replacement character in its place.
    return shortened.decode(errors="replace")
