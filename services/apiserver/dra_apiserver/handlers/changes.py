"""The steps between a request's object and the stored one, in upstream's order (`registry/rest`)."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
from dra_shared.jsontext import dumps
from dra_shared.names import path_segment_name

from dra_apiserver import admission
from dra_apiserver.api import Api
from dra_apiserver.conversion import convert, to_storage
from dra_apiserver.errors import (
    FieldError,
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_object,
    server_error,
)
from dra_apiserver.handlers.options import WriteOptions, parse_resource_version
from dra_apiserver.http import Request
from dra_apiserver.kinds.common.objectmeta import validate_metadata, validate_metadata_update
from dra_apiserver.kinds.strategy import Context
from dra_apiserver.patch import same_but_times, track_update
from dra_apiserver.present import canonical
from dra_apiserver.schema import object_type
from dra_apiserver.schema.reader import complete, strip
from dra_apiserver.schema.types import Struct
from dra_apiserver.storage import Put, Remove, object_key
from dra_apiserver.target import Target

if TYPE_CHECKING:
    from dra_apiserver.kinds.admissionregistration.dynamic.registered import Admission

JsonObject = dict[str, Any]

# apiserver/pkg/storage/names: no vowels, so that no words come out.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_BASE = 58
_SYSTEM_FIELDS = ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


def generate_name(base: str) -> str:
    """A name that starts with `base`, cut to leave room, and ends in five random characters."""
    return base[:_GENERATED_BASE] + "".join(random.choices(_ALPHABET, k=5))


def _new_uid() -> str:
    # What uuid.uuid4 makes, without a system call each time.
    digits = f"{random.getrandbits(128):032x}"
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def match_namespace(target: Target, meta: JsonObject) -> None:
    """Give the object its request's namespace.

    Raises:
        StatusError: 400, the object names another.
    """
    found = meta.get("namespace") or ""
    if found and target.namespace and found != target.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if target.namespace:
        meta["namespace"] = target.namespace
    else:
        meta.pop("namespace", None)


def drop_duplicate_owners(meta: JsonObject, request: Request) -> None:
    """Keep one of equal owner references, with upstream's warning."""
    owners = meta.get("ownerReferences")
    if not owners or len(owners) < 2:
        return
    kept: dict[bytes, JsonObject] = {}
    for owner in owners:
        if kept.setdefault(orjson.dumps(owner, option=orjson.OPT_SORT_KEYS), owner) is not owner:
            text = (
                f".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, "
                f"and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
                f"{owner.get('uid', '')}"
            )
            request.warn([text])
    meta["ownerReferences"] = list(kept.values())


def confirm_grant(
    api: Api, request: Request, target: Target, obj: JsonObject, old: JsonObject | None = None
) -> None:
    """Let nobody store a role or a binding that gives more than the request's user has.

    Raises:
        StatusError: 403, or 404, as ``check_escalation``.
    """
    check = target.kind.check_escalation
    if api.authorizer is not None and check is not None:
        check(api.authorizer, request.user, target.kind.plural, target.namespace, obj, old)


def confirm_create(ctx: Context, target: Target) -> None:
    """A change that makes the object needs the permission to create it, too.

    Raises:
        StatusError: 403, there is none.
    """
    reason = ctx.authorize("create", target.kind.plural, target.namespace, target.name)
    if reason is not None:
        raise forbidden(target.qualified, target.name, reason)


def initialize(obj: JsonObject, now: str) -> None:
    """Fill in what the server alone decides about a new object; names it where it is to be named."""
    meta = obj["metadata"]
    for field in _SYSTEM_FIELDS:
        meta.pop(field, None)
    meta["creationTimestamp"] = now
    meta["uid"] = _new_uid()
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = generate_name(meta["generateName"])


def prepare_create(api: Api, request: Request, target: Target, obj: JsonObject, ctx: Context) -> JsonObject:
    """What is stored for a new object, which is in the stored version already.

    Raises:
        StatusError: admission, validation or the strategy refuses.
    """
    strategy = target.kind.strategy_for(target.subresource)
    registered = api.admission(request, target)
    admission.mutate(obj, None, ctx, "CREATE", registered)
    strategy.prepare_for_create(obj, ctx)
    _complete_status(target, obj)
    errors = strategy.validate_create(obj, ctx)
    meta = obj["metadata"]
    if errors:
        raise invalid_object(target.kind.group, target.kind.kind, meta.get("name", ""), errors)
    request.warn(strategy.warnings_on_create(obj, ctx))
    admission.validate(obj, None, ctx, "CREATE", registered)
    if meta.pop("resourceVersion", ""):
        # Upstream's storage finds this and answers 500; the request is what is wrong.
        raise bad_request("resourceVersion should not be set on objects to be created")
    strip(object_type(target.kind, target.kind.storage_version), obj)
    return canonical(obj)


def _complete_status(target: Target, obj: JsonObject) -> None:
    # A strategy that empties the status leaves out what an encoded one always has.
    if "status" in obj and target.kind.has_status:
        member = object_type(target.kind, target.kind.storage_version).fields.get("status")
        if member is not None and isinstance(member.node, Struct):
            complete(member.node, obj["status"])


def check_version(target: Target, meta: JsonObject, old_meta: JsonObject) -> None:
    """The object must be changed from its newest version, where it says from which; it has that version then.

    Raises:
        StatusError: 409, it was changed from another; 422, its kind must say so.
    """
    version = meta.get("resourceVersion") or ""
    try:
        wanted = parse_resource_version(version)
    except ValueError as error:
        raise server_error(str(error)) from None
    if wanted:
        if str(wanted) != old_meta["resourceVersion"]:
            raise conflict(target.qualified, target.name)
    elif not target.kind.allow_unconditional_update:
        missing = invalid("metadata.resourceVersion", 0, "must be specified for an update")
        # Upstream names the resource here where it names the kind elsewhere.
        raise invalid_object(target.kind.group, target.kind.plural, target.name, [missing])
    meta["resourceVersion"] = old_meta["resourceVersion"]


def prepare_update(
    request: Request,
    target: Target,
    obj: JsonObject,
    old: JsonObject,
    ctx: Context,
    registered: Admission | None,
) -> Put | Remove | None:
    """What is stored when `obj`, in the stored version, takes the place of `old`; parts of that may be in it already.

    Raises:
        StatusError: admission, validation or the strategy refuses.
    """
    kind = target.kind
    meta, old_meta = obj["metadata"], old["metadata"]
    amend(target, obj, old, ctx, registered)
    # Upstream checks the metadata of every kind here, and again in most kinds' own validation.
    errors = validate_metadata(meta, kind.namespaced, path_segment_name, stored=old_meta)
    errors += validate_metadata_update(meta, old_meta, members_good=not errors)
    ctx = replace(ctx, metadata_good=not errors)
    check_update(request, target, obj, old, ctx, errors)
    admission.validate(obj, old, ctx, "UPDATE", registered)
    strip(object_type(kind, kind.storage_version), obj, old)
    removable = (
        old_meta.get("deletionTimestamp")
        and not meta.get("finalizers")
        and not old_meta.get("deletionGracePeriodSeconds")
        and (kind.is_finalized is None or kind.is_finalized(obj))
    )
    if removable:
        return Remove(canonical(obj))
    return None if same_but_times(old, obj) else Put(canonical(obj))


def amend(
    target: Target, obj: JsonObject, old: JsonObject, ctx: Context, registered: Admission | None
) -> None:
    """Let admission and the strategy change the object, and keep what only the server sets as it was.

    Raises:
        StatusError: admission refuses.
    """
    meta, old_meta = obj["metadata"], old["metadata"]
    match_namespace(target, meta)
    if "generation" in old_meta:
        meta["generation"] = old_meta["generation"]
    else:
        meta.pop("generation", None)
    admission.mutate(obj, old, ctx, "UPDATE", registered)
    target.kind.strategy_for(target.subresource).prepare_for_update(obj, old, ctx)
    if not meta.get("uid"):
        meta["uid"] = old_meta["uid"]
    meta["creationTimestamp"] = old_meta.get("creationTimestamp")
    if not ctx.dry_run:
        # Storage drops it.
        meta.pop("selfLink", None)
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if old_meta.get(field) is not None:
            meta[field] = old_meta[field]
        else:
            meta.pop(field, None)


def check_update(
    request: Request,
    target: Target,
    obj: JsonObject,
    old: JsonObject,
    ctx: Context,
    errors: list[FieldError],
) -> None:
    """Have the strategy judge the object, which has these `errors` already, and warn of it.

    Raises:
        StatusError: 422, there are errors.
    """
    strategy = target.kind.strategy_for(target.subresource)
    errors += strategy.validate_update(obj, old, ctx)
    if errors:
        raise invalid_object(target.kind.group, target.kind.kind, obj["metadata"].get("name", ""), errors)
    request.warn(strategy.warnings_on_update(obj, old, ctx))


def check_uid(target: Target, meta: JsonObject, old_meta: JsonObject) -> None:
    """An object that names a uid means that very object.

    Raises:
        StatusError: 409, another one has its name by now.
    """
    uid = meta.get("uid")
    if uid and uid != old_meta["uid"]:
        text = (
            f"StorageError: invalid object, Code: 4, Key: /registry/{target.kind.plural}/"
            f"{object_key(target.namespace, target.name)}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old_meta['uid']}"
        )
        raise conflict(target.qualified, target.name, text)


def track_changes(
    target: Target, old: JsonObject | None, obj: JsonObject, ctx: Context, options: WriteOptions
) -> None:
    """Write down in managedFields what the request's manager changed, in the request's version."""
    kind, version = target.kind, target.version
    same = version == kind.storage_version and kind.storage == (kind.group, kind.plural)
    if same:
        track_update(
            kind, version, old, obj, manager=options.manager, subresource=target.subresource, now=ctx.now
        )
        return
    seen_old = None if old is None else convert(kind, _copy(old), version)
    seen = convert(kind, _copy(obj), version)
    track_update(
        kind, version, seen_old, seen, manager=options.manager, subresource=target.subresource, now=ctx.now
    )
    if "managedFields" in seen["metadata"]:
        obj["metadata"]["managedFields"] = seen["metadata"]["managedFields"]
    else:
        obj["metadata"].pop("managedFields", None)


def _copy(obj: JsonObject) -> JsonObject:
    made: JsonObject = orjson.loads(dumps(obj))
    return made


def into_storage(target: Target, obj: JsonObject, version: str) -> JsonObject:
    """An object that a request brought in `version`, in the stored form."""
    kind = target.kind
    if version == kind.storage_version and kind.storage == (kind.group, kind.plural):
        return obj
    return to_storage(kind, obj, version)
