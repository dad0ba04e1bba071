"""The strategy of custom resources: the generic one, and their definition's schema."""

from dataclasses import replace
from typing import Any

from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.common.objectmeta import keep_metadata
from dra_apiserver.errors import ErrorType, FieldError, Verbatim
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.custom.rules import check_rules, has_rules
from dra_apiserver.kinds.custom.validation import check_count, validate_custom

JsonObject = dict[str, Any]

_BLOCKING = frozenset(
    {
        ErrorType.NOT_SUPPORTED,
        ErrorType.REQUIRED,
        ErrorType.TOO_LONG,
        ErrorType.TOO_MANY,
        ErrorType.TYPE_INVALID,
    }
)
_NOT_CHECKED = FieldError(
    ErrorType.INVALID,
    "<nil>",
    Verbatim("null"),
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


class CustomStrategy(GenericStrategy):
    """Objects must fit the schema of the version that they are written in."""

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """A new object has no status where the kind has a status subresource."""
        if ctx.kind.has_status:
            obj.pop("status", None)
        obj["metadata"]["generation"] = 1

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """A status comes without metadata of its own."""
        super().prepare_for_update(obj, old, ctx)
        if ctx.subresource == "status":
            keep_metadata(obj["metadata"], old["metadata"])

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """The metadata's errors, then the schema's."""
        return super().validate_create(obj, ctx) + self._schema_errors(obj, None, ctx)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """The metadata's errors, then the schema's."""
        return super().validate_update(obj, old, ctx) + self._schema_errors(obj, old, ctx)

    def _schema_errors(self, obj: JsonObject, old: JsonObject | None, ctx: Context) -> list[FieldError]:
        schema = ctx.kind.types.schemas.get(ctx.version)
        if schema is None:
            return []
        errors = validate_custom(schema, obj, old)
        if ctx.subresource == "status":
            errors = [_of_status(error) for error in errors if error.field.partition(".")[0] == "status"]
        scale = ctx.kind.scale
        if scale is not None:
            errors += check_count(
                obj, scale.spec_replicas if ctx.subresource != "status" else scale.status_replicas
            )
        if has_rules(schema):
            # Rules may rely on what the schema says, so they are not asked where that does not hold.
            if any(error.type in _BLOCKING for error in errors):
                return [*errors, _NOT_CHECKED]
            errors += check_rules(schema, obj, old)
        return errors


def _of_status(error: FieldError) -> FieldError:
    """The error as upstream has it where the status alone is looked at."""
    if not error.detail.startswith(f"{error.field} in body"):
        return error
    return replace(error, detail=error.detail.removeprefix("status").removeprefix("."))
