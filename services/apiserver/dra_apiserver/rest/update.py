"""Prepare an object that replaces another one (`registry/rest/update.go`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.names import path_segment_name

from dra_apiserver.admission import Chain
from dra_apiserver.common.objectmeta import validate_metadata, validate_metadata_update
from dra_apiserver.errors import FieldError, conflict, invalid, invalid_object, server_error
from dra_apiserver.http import Request
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.patch import same_but_times
from dra_apiserver.rest.meta import has_distinct_errors, match_namespace
from dra_apiserver.schema import object_type
from dra_apiserver.schema.reader import strip
from dra_apiserver.storage import Put, Remove, object_key
from dra_apiserver.storage.records import canonical
from dra_apiserver.storage.versioner import parse_resource_version
from dra_apiserver.target import Target


def check_version(target: Target, meta: JsonObject, old_meta: JsonObject) -> None:
    """Check that the update is based on the newest version, if it states one, and set that version.

    Raises:
        StatusError: 409, it is based on another version; 422, its kind requires a version and it states none.
    """
    version = meta.get("resourceVersion") or ""
    try:
        wanted = parse_resource_version(version)
    except ValueError as error:
        raise server_error(str(error)) from None
    if wanted:
        if str(wanted) != old_meta["resourceVersion"]:
            raise conflict(target.qualified_resource, target.name)
    elif (
        not target.kind.writes.allow_unconditional_update
        or target.version in target.kind.writes.conditional_versions
    ):
        missing = invalid("metadata.resourceVersion", 0, "must be specified for an update")
        # Upstream names the resource here, while it names the kind elsewhere.
        raise invalid_object(target.kind.group, target.kind.plural, target.name, [missing])
    meta["resourceVersion"] = old_meta["resourceVersion"]


def check_uid(target: Target, meta: JsonObject, old_meta: JsonObject) -> None:
    """Check that the object is the stored one, if it states a uid.

    Raises:
        StatusError: 409, another object has its name now.
    """
    uid = meta.get("uid")
    if uid and uid != old_meta["uid"]:
        text = (
            f"StorageError: invalid object, Code: 4, Key: /registry/{target.kind.plural}/"
            f"{object_key(target.namespace, target.name)}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old_meta['uid']}"
        )
        raise conflict(target.qualified_resource, target.name, text)


def before_update(
    request: Request, target: Target, obj: JsonObject, old: JsonObject, ctx: Context, chain: Chain
) -> Put | Remove | None:
    """Return the change for an object `obj` in the storage version that replaces `old`, whose parts it may share.

    Raises:
        StatusError: admission, validation or the strategy rejects it.
    """
    kind = target.kind
    meta, old_meta = obj["metadata"], old["metadata"]
    prepare_update(target, obj, old, ctx, chain)
    errors = check_common_fields(target, meta, old_meta)
    ctx = ctx._replace(metadata_good=not errors)
    validate_update(request, target, obj, old, ctx, errors)
    chain.validate(obj, old, ctx, "UPDATE")
    strip(object_type(kind, kind.storage_version), obj, old)
    removable = (
        old_meta.get("deletionTimestamp")
        and not meta.get("finalizers")
        and not old_meta.get("deletionGracePeriodSeconds")
        and (kind.deletion.is_finalized is None or kind.deletion.is_finalized(obj))
    )
    if removable:
        return Remove(canonical(obj))
    return None if same_but_times(old, obj) else Put(canonical(obj))


def check_common_fields(target: Target, meta: JsonObject, old_meta: JsonObject) -> list[FieldError]:
    """Validate the metadata of an update. Upstream repeats it in the validation of most kinds."""
    errors = validate_metadata(meta, target.kind.namespaced, path_segment_name, stored=old_meta)
    return errors + validate_metadata_update(meta, old_meta, members_good=not errors)


def prepare_update(target: Target, obj: JsonObject, old: JsonObject, ctx: Context, chain: Chain) -> None:
    """Let admission and the strategy change the object, and keep fields that only the server sets.

    Raises:
        StatusError: admission rejects it.
    """
    meta, old_meta = obj["metadata"], old["metadata"]
    match_namespace(target, meta)
    if "generation" in old_meta:
        meta["generation"] = old_meta["generation"]
    else:
        meta.pop("generation", None)
    chain.mutate(obj, old, ctx, "UPDATE")
    # Admission may have changed it.
    match_namespace(target, meta)
    target.kind.strategy_for(target.subresource).prepare_for_update(obj, old, ctx)
    if not meta.get("uid"):
        meta["uid"] = old_meta["uid"]
    meta["creationTimestamp"] = old_meta.get("creationTimestamp")
    if not ctx.dry_run:
        # The storage layer drops the selfLink.
        meta.pop("selfLink", None)
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if old_meta.get(field) is not None:
            meta[field] = old_meta[field]
        else:
            meta.pop(field, None)


def validate_update(
    request: Request,
    target: Target,
    obj: JsonObject,
    old: JsonObject,
    ctx: Context,
    errors: list[FieldError],
) -> None:
    """Validate the object, which has these `errors` already, with the strategy, and add its warnings.

    Raises:
        StatusError: 422, there are errors.
    """
    strategy = target.kind.strategy_for(target.subresource)
    errors += strategy.validate_update(obj, old, ctx)
    if errors:
        kind, distinct = target.kind, has_distinct_errors(target.kind, ctx.features.version)
        raise invalid_object(kind.group, kind.kind, obj["metadata"].get("name", ""), errors, distinct)
    request.warn(strategy.warnings_on_update(obj, old, ctx))
