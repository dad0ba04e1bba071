"""The DefaultStorageClass admission plugin (upstream's `plugin/pkg/admission/storage/storageclass`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.classes import all_of, default_class, is_new, name_of
from dra_apiserver.kindkit.strategy import Context

_STORAGE_DEFAULTS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"


def default_storage_class(
    obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str
) -> None:
    """Set the class of a claim that names none (the DefaultStorageClass plugin)."""
    if obj is None or not is_new(ctx, "", "persistentvolumeclaims", operation):
        return
    spec, marks = obj.setdefault("spec", {}), obj["metadata"].get("annotations") or {}
    if spec.get("storageClassName") is not None or _STORAGE_CLASS in marks:
        return
    found = default_class(all_of(ctx, "storage.k8s.io", "storageclasses"), _STORAGE_DEFAULTS)
    if found is not None:
        spec["storageClassName"] = name_of(found)
