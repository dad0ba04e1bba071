"""The strategy of custom resources: the generic one, and their definition's schema."""

from typing import Any

from dra_apiserver.errors import FieldError
from dra_apiserver.extensions.validation import validate_custom
from dra_apiserver.strategy import Context
from dra_apiserver.strategy.generic import GenericStrategy

JsonObject = dict[str, Any]


class CustomStrategy(GenericStrategy):
    """Objects must fit the schema of the version that they are stored in."""

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """A new object has no status where the kind has a status subresource."""
        if ctx.kind.has_status:
            obj.pop("status", None)
        obj["metadata"]["generation"] = 1

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """The metadata's errors, then the schema's."""
        return super().validate_create(obj, ctx) + self._schema_errors(obj, ctx)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """The metadata's errors, then the schema's."""
        return super().validate_update(obj, old, ctx) + self._schema_errors(obj, ctx)

    def _schema_errors(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        custom = ctx.kind.custom or {}
        found = custom.get(ctx.kind.storage_version)
        return [] if found is None else validate_custom(found.schema, obj)
