"""The strategy of custom resources: the generic one, and the schema of their definition."""

from dataclasses import replace

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.common.objectmeta import keep_metadata
from dra_apiserver.errors import ErrorType, FieldError, Verbatim
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.custom.rules import check_rules, has_rules
from dra_apiserver.kinds.custom.validation import check_count, validate_custom

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
    """The strategy of custom resources. Objects are validated with the schema of their version."""

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Remove the status of a new object if the kind has a status subresource."""
        if ctx.kind.has_status:
            obj.pop("status", None)
        obj["metadata"]["generation"] = 1

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Keep the metadata if the status is updated."""
        super().prepare_for_update(obj, old, ctx)
        if ctx.subresource == "status":
            keep_metadata(obj["metadata"], old["metadata"])

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, then the schema."""
        return super().validate_create(obj, ctx) + self._schema_errors(obj, None, ctx)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, then the schema."""
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
            # Rules may rely on the schema, so they are skipped if the object violates it.
            if any(error.type in _BLOCKING for error in errors):
                return [*errors, _NOT_CHECKED]
            errors += check_rules(schema, obj, old)
        return errors


def _of_status(error: FieldError) -> FieldError:
    """Return the error with upstream's field for an update of the status."""
    if not error.detail.startswith(f"{error.field} in body"):
        return error
    return replace(error, detail=error.detail.removeprefix("status").removeprefix("."))
