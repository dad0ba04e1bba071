"""The strategy of CustomResourceDefinitions."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.errors import FieldError, invalid
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.custom.checks import check_definition, definition_name


class DefinitionStrategy(GenericStrategy):
    """The strategy of definitions. The status lists all versions in which objects were ever stored."""

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Record the storage version."""
        super().prepare_for_create(obj, ctx)
        _note_stored(obj)

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Record the storage version if it changed."""
        super().prepare_for_update(obj, old, ctx)
        if ctx.subresource != "status":
            _note_stored(obj)

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, then the definition."""
        name = obj["metadata"].get("name") or ""
        errors = super().validate_create(obj, ctx)
        errors += [invalid("metadata.name", name, text) for text in definition_name(obj)]
        return errors + check_definition(obj, None)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, then the definition."""
        errors = super().validate_update(obj, old, ctx)
        return errors if ctx.subresource else errors + check_definition(obj, old)


def _note_stored(obj: JsonObject) -> None:
    versions = (obj.get("spec") or {}).get("versions") or ()
    stored = next((one.get("name", "") for one in versions if one.get("storage")), None)
    status = obj.get("status") or {}
    known = status.get("storedVersions") or []
    if stored is not None and stored not in known:
        obj["status"] = {**status, "storedVersions": [*known, stored]}
