"""Apply one patch, from the body of a request to the resulting object."""

from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.patch import (
    JSON_PATCH,
    MERGE_PATCH,
    PatchError,
    json_patch,
    load_merge,
    load_operations,
    load_strategic,
    merge_patch,
    patch_types,
    strategic_merge_patch,
)
from dra_apiserver.schema import object_type
from dra_shared.jsontypes import JsonObject


def patch_object(kind: Kind, version: str, obj: JsonObject, body: bytes, media_type: str) -> JsonObject:
    if media_type not in patch_types(kind):
        raise PatchError("415: Unsupported Media Type", 415, "UnsupportedMediaType")
    if media_type == JSON_PATCH:
        made: JsonObject = json_patch(obj, load_operations(body, strict=True)[0])
        return made
    if media_type == MERGE_PATCH:
        return merge_patch(obj, load_merge(body, strict=True)[0])
    return strategic_merge_patch(object_type(kind, version), obj, load_strategic(body))
