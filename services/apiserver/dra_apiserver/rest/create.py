"""Prepare a new object for the store (`registry/rest/create.go`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.admission import Chain
from dra_apiserver.errors import bad_request, invalid_object
from dra_apiserver.http import Request
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.rest.meta import has_distinct_errors, match_namespace
from dra_apiserver.schema import object_type
from dra_apiserver.schema.reader import complete, strip
from dra_apiserver.schema.types import Struct
from dra_apiserver.storage.records import canonical
from dra_apiserver.target import Target


def before_create(
    request: Request, target: Target, obj: JsonObject, ctx: Context, chain: Chain
) -> JsonObject:
    """Return the object to store for a new object, which is in the storage version.

    Raises:
        StatusError: admission, validation or the strategy rejects it.
    """
    strategy = target.kind.strategy_for(target.subresource)
    chain.mutate(obj, None, ctx, "CREATE")
    # Admission may have changed it.
    match_namespace(target, obj["metadata"])
    strategy.prepare_for_create(obj, ctx)
    _complete_status(target, obj)
    errors = strategy.validate_create(obj, ctx)
    meta = obj["metadata"]
    if errors:
        distinct = has_distinct_errors(target.kind, ctx.features.version)
        raise invalid_object(target.kind.group, target.kind.kind, meta.get("name", ""), errors, distinct)
    request.warn(strategy.warnings_on_create(obj, ctx))
    chain.validate(obj, None, ctx, "CREATE")
    if meta.pop("resourceVersion", ""):
        # As upstream, whose storage layer detects this, the response is 500, although the request is at fault.
        raise bad_request("resourceVersion should not be set on objects to be created")
    strip(object_type(target.kind, target.kind.storage_version), obj)
    return canonical(obj)


def _complete_status(target: Target, obj: JsonObject) -> None:
    # A strategy that removes the status omits members that an encoded object always has.
    if "status" in obj and target.kind.has_status:
        member = object_type(target.kind, target.kind.storage_version).fields.get("status")
        if member is not None and isinstance(member.node, Struct):
            complete(member.node, obj["status"])
