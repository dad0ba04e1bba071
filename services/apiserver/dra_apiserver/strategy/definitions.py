"""The strategy of CustomResourceDefinitions."""

from __future__ import annotations

from typing import Any

from dra_apiserver.strategy import Context
from dra_apiserver.strategy.generic import GenericStrategy

JsonObject = dict[str, Any]


class DefinitionStrategy(GenericStrategy):
    """Keeps in the status which versions objects were ever stored in."""

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """The version that objects are stored in."""
        super().prepare_for_create(obj, ctx)
        _note_stored(obj)

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """One more where objects are stored in another version from now on."""
        super().prepare_for_update(obj, old, ctx)
        if ctx.subresource != "status":
            _note_stored(obj)


def _note_stored(obj: JsonObject) -> None:
    versions = (obj.get("spec") or {}).get("versions") or ()
    stored = next((one.get("name", "") for one in versions if one.get("storage")), None)
    status = obj.get("status") or {}
    known = status.get("storedVersions") or []
    if stored is not None and stored not in known:
        obj["status"] = {**status, "storedVersions": [*known, stored]}
