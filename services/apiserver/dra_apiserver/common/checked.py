"""Strategies of kinds, or statuses, that are validated by a single function."""

from __future__ import annotations

from collections.abc import Callable

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.gates import GatedFields, drop_disabled
from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.common.objectmeta import keep_metadata, reset_for_status
from dra_apiserver.errors import FieldError
from dra_apiserver.kindkit.strategy import Context

StatusCheck = Callable[[JsonObject, JsonObject], list[FieldError]]


class CheckedStrategy(GenericStrategy):
    """The generic strategy, with a function that validates new and changed objects."""

    def __init__(self, check: Check, gated: tuple[GatedFields, ...] = ()) -> None:
        self.check = check
        self.gated = gated

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, then the kind's own rules."""
        return super().validate_create(obj, ctx) + self.check(obj, None)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, then the kind's own rules."""
        errors = super().validate_update(obj, old, ctx)
        return errors if ctx.subresource else errors + self.check(obj, old)


class StatusStrategy(GenericStrategy):
    """The generic strategy of a status, with a function that validates the new against the old one.

    `keeps_metadata`: a status update only changes the metadata that upstream allows it to change. `keeps_all`:
    it changes no metadata.
    """

    def __init__(
        self,
        check: StatusCheck,
        keeps_metadata: bool = False,
        keeps_all: bool = False,
        gated: tuple[GatedFields, ...] = (),
    ) -> None:
        self._check = check
        self.gated = gated
        self._keeps_metadata = keeps_metadata
        self._keeps_all = keeps_all

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Keep everything but the status, and the metadata if the kind keeps it."""
        super().prepare_for_update(obj, old, ctx)
        drop_disabled(self.gated, obj, old, ctx.features)
        if self._keeps_metadata:
            reset_for_status(obj["metadata"], old["metadata"])
        if self._keeps_all:
            keep_metadata(obj["metadata"], old["metadata"])

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, then the status."""
        return super().validate_update(obj, old, ctx) + self._check(obj, old)


Check = Callable[[JsonObject, JsonObject | None], list[FieldError]]
