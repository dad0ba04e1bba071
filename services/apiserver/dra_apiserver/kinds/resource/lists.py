"""Validate lists, sets and maps of resource.k8s.io, as a given version of Kubernetes does.

Mirrors validateSlice, validateSet and validateMap of ``pkg/apis/resource/validation``, which changed in 1.35
and 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from dra_shared.version import V1_35, V1_36, Version

from dra_apiserver.common import lists
from dra_apiserver.common.lists import Check
from dra_apiserver.errors import FieldError

T = TypeVar("T")


class Lists:
    """Checks lists as ``kubernetes`` does; the methods are those of :mod:`dra_apiserver.common.lists`."""

    def __init__(self, kubernetes: Version) -> None:
        self._kubernetes = kubernetes

    @property
    def _too_long_lists_are_checked(self) -> bool:
        """True if the entries of a list that is too long are validated too."""
        return self._kubernetes < V1_35

    @property
    def _duplicates_name_the_key(self) -> bool:
        """True if a duplicate is reported at the entry's key, such as ``requests[1].name``."""
        return self._kubernetes < V1_35

    @property
    def _bad_keys_name_themselves(self) -> bool:
        """True if a map's invalid key is reported at ``attributes[key]``, instead of at the map."""
        return self._kubernetes < V1_36

    def check_list(
        self, items: Sequence[T] | None, limit: int | None, check: Check[T], path: str
    ) -> list[FieldError]:
        """Return the errors of a list."""
        return lists.check_list(items, limit, check, path, thorough=self._too_long_lists_are_checked)

    def check_set(
        self,
        items: Sequence[T] | None,
        limit: int | None,
        check: Check[T],
        key: Callable[[T], Any],
        path: str,
        member: str = "",
    ) -> list[FieldError]:
        """Return the errors of a list whose entries each have a ``key``. ``member`` is the field with the key."""
        return lists.check_set(
            items,
            limit,
            check,
            key,
            path,
            thorough=self._too_long_lists_are_checked,
            member=member if self._duplicates_name_the_key else "",
        )

    def check_map(
        self,
        entries: Mapping[str, T] | None,
        limit: int | None,
        shown_length: int,
        check_key: Check[str],
        check: Check[T],
        path: str,
    ) -> list[FieldError]:
        """Return the errors of a map."""
        return lists.check_map(
            entries,
            limit,
            shown_length,
            check_key,
            check,
            path,
            thorough=self._too_long_lists_are_checked,
            keyed=self._bad_keys_name_themselves,
        )
