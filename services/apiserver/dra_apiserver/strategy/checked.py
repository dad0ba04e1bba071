"""The strategy of kinds of which one function says what is wrong."""

from __future__ import annotations

from typing import Any

from dra_apiserver.errors import FieldError
from dra_apiserver.strategy import Context
from dra_apiserver.strategy.generic import GenericStrategy
from dra_apiserver.validation.coreobjects import Check

JsonObject = dict[str, Any]


class CheckedStrategy(GenericStrategy):
    """As any kind, with a check of new and changed objects."""

    def __init__(self, check: Check) -> None:
        self._check = check

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """The errors of metadata, then the kind's own."""
        return super().validate_create(obj, ctx) + self._check(obj, None)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """The errors of metadata, then the kind's own."""
        errors = super().validate_update(obj, old, ctx)
        return errors if ctx.subresource else errors + self._check(obj, old)
