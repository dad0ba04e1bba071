"""create, update and patch."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson

from dra_apiserver.conversion import convert
from dra_apiserver.errors import StatusError as StatusError
from dra_apiserver.errors import (
    already_exists,
    bad_request,
    conflict,
    generated_name_taken,
    not_found,
    server_error,
)
from dra_apiserver.handlers.api import Api, Target
from dra_apiserver.handlers.changes import (
    check_namespace,
    check_uid,
    check_version,
    confirm_create,
    confirm_grant,
    drop_duplicate_owners,
    initialize,
    into_storage,
    match_namespace,
    prepare_create,
    prepare_update,
    track_changes,
)
from dra_apiserver.handlers.mechanisms import Apply, Patched, mechanism
from dra_apiserver.handlers.options import WriteOptions, write_options
from dra_apiserver.http import Request
from dra_apiserver.patch import APPLY_PATCH, patch_types, reset_fields, track_update
from dra_apiserver.present import canonical
from dra_apiserver.registry import KindInfo
from dra_apiserver.schema import decode, default
from dra_apiserver.storage import Put, Record, Remove
from dra_apiserver.strategy.updates import makes_by_update

JsonObject = dict[str, Any]

_GENERATE_ATTEMPTS = 8


async def _decoded(api: Api, request: Request, target: Target, options: WriteOptions) -> JsonObject:
    body = await request.body()
    decoded = decode(
        api.registry,
        target.kind,
        target.version,
        body,
        request.header(b"content-type"),
        options.field_validation,
    )
    request.warn(decoded.warnings)
    obj = decoded.obj
    if not isinstance(obj.get("metadata"), dict):
        obj["metadata"] = {}
    return obj


async def create(api: Api, request: Request, target: Target) -> None:
    """Store a new object."""
    presenter = api.presenter(target, request)
    options = write_options(request, "CreateOptions")
    obj = await _decoded(api, request, target, options)
    meta = obj["metadata"]
    match_namespace(target, meta)
    ctx = api.context(target, request.user, options.dry_run)
    default(target.kind, target.version, obj, ctx.now)
    drop_duplicate_owners(meta, request)
    target.name = meta.get("name") or ""
    check_namespace(api, target, creating=True)
    generated = not target.name and bool(meta.get("generateName"))
    confirm_grant(api, request, target, obj)
    initialize(obj, ctx.now)
    kind, version = target.kind, target.version
    track_update(
        kind, version, None, obj, manager=options.manager, subresource=target.subresource, now=ctx.now
    )
    wanted = into_storage(target, obj, target.version)
    if api.dynamic is None:
        stored = prepare_create(api, request, target, wanted, ctx)
    else:
        work = partial(prepare_create, api, request, target, wanted, ctx)
        stored = await api.dynamic.run(target.resource, work)
    record = None
    for attempt in range(_GENERATE_ATTEMPTS):
        target.name = stored["metadata"]["name"]
        try:
            record = await store_new(api, target, stored, options.dry_run)
            break
        except StatusError as error:
            if not generated or error.reason != "AlreadyExists":
                raise
            if attempt == _GENERATE_ATTEMPTS - 1:
                raise generated_name_taken(target.qualified, target.name) from None
            initialize_again = stored["metadata"]
            initialize_again["name"] = ""
            initialize(stored, ctx.now)
    assert record is not None
    await request.respond(201, presenter.one(record.data), presenter.accepted.media_type)


async def store_new(api: Api, target: Target, obj: JsonObject, dry_run: bool) -> Record:
    """Store an object under a name that must be free.

    Raises:
        StatusError: 409, it isn't.
    """

    def change(current: Record | None) -> Put:
        if current is None:
            return Put(obj)
        error = already_exists(target.qualified, target.name)
        if current.object()["metadata"].get("deletionTimestamp"):
            error = StatusError(
                409, "AlreadyExists", f"object is being deleted: {error.message}", error.status["details"]
            )
        raise error

    record = await api.store.write(target.resource, target.key, change, dry_run)
    assert record is not None
    return record


def check_name(target: Target, meta: JsonObject) -> None:
    """The object must be the one that the path names.

    Raises:
        StatusError: 400, it isn't.
    """
    name = meta.get("name") or ""
    match_namespace(target, meta)
    if not name:
        raise bad_request(
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        )
    if name != target.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )


async def update(api: Api, request: Request, target: Target) -> None:
    """Put an object in place of the stored one."""
    presenter = api.presenter(target, request)
    options = write_options(request, "UpdateOptions")
    obj = await _decoded(api, request, target, options)
    check_name(target, obj["metadata"])
    ctx = api.context(target, request.user, options.dry_run)
    created = False

    def change(current: Record | None) -> Put | Remove | None:
        nonlocal created
        if current is None:
            if not makes_by_update(target.kind) or target.subresource:
                raise not_found(target.qualified, target.name)
            created = True
            default(target.kind, target.version, obj, ctx.now)
            drop_duplicate_owners(obj["metadata"], request)
            return _create_by_update(api, request, target, into_storage(target, obj, target.version), options)
        old = current.object()
        # With webhooks this may be the second time.
        new = obj if api.dynamic is None else orjson.loads(orjson.dumps(obj))
        wanted = _in_form(request, target, new, old, ctx.now)
        check_uid(target, wanted["metadata"], old["metadata"])
        check_version(target, wanted["metadata"], old["metadata"])
        # What the client changed is its own, also where the strategy takes it back.
        track_changes(target, old, wanted, ctx, options)
        confirm_grant(api, request, target, wanted, old)
        return prepare_update(request, target, wanted, old, ctx, api.admission(request, target))

    record = await (api.dynamic or api.store).write(target.resource, target.key, change, options.dry_run)
    assert record is not None
    await request.respond(201 if created else 200, presenter.one(record.data), presenter.accepted.media_type)


def _in_form(request: Request, target: Target, obj: JsonObject, old: JsonObject, now: str) -> JsonObject:
    """A changed object as it is stored: with defaults, and with the old one's spec where a status is written."""
    same = _is_stored_form(target)
    if same and ("f:spec",) in reset_fields(target.kind, target.subresource):
        if "spec" in old:
            obj["spec"] = old["spec"]
        else:
            obj.pop("spec", None)
    default(target.kind, target.version, obj, now, old if same else {})
    drop_duplicate_owners(obj["metadata"], request)
    return into_storage(target, obj, target.version)


def _create_by_update(
    api: Api, request: Request, target: Target, obj: JsonObject, options: WriteOptions
) -> Put:
    if obj["metadata"].get("uid"):
        check = f"Precondition failed: UID in precondition: {obj['metadata']['uid']}, UID in object meta: "
        raise server_error(check)
    match_namespace(target, obj["metadata"])
    check_namespace(api, target, creating=True)
    ctx = api.context(target, request.user, options.dry_run)
    obj["metadata"].pop("resourceVersion", None)
    initialize(obj, ctx.now)
    confirm_grant(api, request, target, obj)
    stored = prepare_create(api, request, target, obj, ctx)
    confirm_create(ctx, target)
    track_changes(target, None, stored, ctx, options)
    return Put(canonical(stored))


def check_patch_type(kind: KindInfo, media_type: str) -> None:
    """Raises StatusError, 415, for patches that the kind does not take."""
    accepted = patch_types(kind)
    if media_type in accepted:
        return
    if kind.custom is None:
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    text = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    raise StatusError(415, "UnsupportedMediaType", text)


async def patch(api: Api, request: Request, target: Target) -> None:
    """Change the stored object as the body says."""
    media_type = request.header(b"content-type").partition(";")[0].strip()
    check_patch_type(target.kind, media_type)
    presenter = api.presenter(target, request)
    body = await request.body()
    applying = media_type == APPLY_PATCH
    options = write_options(request, "PatchOptions", apply=applying)
    ctx = api.context(target, request.user, options.dry_run)
    ctx.verb = "patch"
    created = False

    def change(current: Record | None) -> Put | Remove | None:
        nonlocal created
        if current is None and (not applying or target.subresource):
            raise not_found(target.qualified, target.name)
        how = mechanism(api.registry, target, body, media_type, options)
        if current is None:
            assert isinstance(how, Apply)
            created = True
            return _create_by_apply(api, request, target, how.create(ctx.now), options)
        seen = partial(_seen, target, current)
        patched = how.patch(seen, ctx.now)
        if patched.warnings:
            request.warn(patched.warnings)
        obj = patched.obj
        if obj.get("metadata") is None:
            obj["metadata"] = {}
        obj["kind"], obj["apiVersion"] = target.kind.kind, target.kind.api_version(target.version)
        check_name(target, obj["metadata"])
        old = current.object()
        wanted = _in_form(request, target, obj, old, ctx.now)
        check_version(target, wanted["metadata"], old["metadata"])
        if not applying:
            track_changes(target, old, wanted, ctx, options)
        confirm_grant(api, request, target, wanted, old)
        return prepare_update(request, target, wanted, old, ctx, api.admission(request, target))

    record = await (api.dynamic or api.store).write(target.resource, target.key, change, options.dry_run)
    assert record is not None
    await request.respond(201 if created else 200, presenter.one(record.data), presenter.accepted.media_type)


def _seen(target: Target, current: Record) -> JsonObject:
    """A stored object as the request's version shows it."""
    obj = current.object()
    return obj if _is_stored_form(target) else convert(target.kind, obj, target.version)


def _is_stored_form(target: Target) -> bool:
    kind = target.kind
    return target.version == kind.storage_version and kind.storage == (kind.group, kind.plural)


def _create_by_apply(
    api: Api, request: Request, target: Target, patched: Patched, options: WriteOptions
) -> Put:
    obj = patched.obj
    request.warn(patched.warnings)
    meta = obj.setdefault("metadata", {})
    if meta.get("uid"):
        text = (
            f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
        )
        raise conflict(target.qualified, target.name, text)
    check_name(target, meta)
    check_namespace(api, target, creating=True)
    ctx = api.context(target, request.user, options.dry_run)
    default(target.kind, target.version, obj, ctx.now)
    meta.pop("uid", None)
    meta.pop("resourceVersion", None)
    initialize(obj, ctx.now)
    wanted = into_storage(target, obj, target.version)
    confirm_grant(api, request, target, wanted)
    stored = prepare_create(api, request, target, wanted, ctx)
    confirm_create(ctx, target)
    return Put(stored)
