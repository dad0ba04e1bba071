"""create, update and patch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import orjson
from dra_shared.jsontext import dumps

from dra_apiserver.api import Api
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
from dra_apiserver.handlers.changes import (
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
from dra_apiserver.kinds.common.namespacelifecycle import check_namespace
from dra_apiserver.kinds.common.quota import resource_quota
from dra_apiserver.kinds.kind import Kind
from dra_apiserver.kinds.strategy import Context
from dra_apiserver.longwrites import MUCH, is_long
from dra_apiserver.patch import APPLY_PATCH, patch_types, reset_fields, track_update
from dra_apiserver.present import Presenter, canonical
from dra_apiserver.schema import decode, default
from dra_apiserver.storage import Put, Record, Remove
from dra_apiserver.storage.seen import Confirm
from dra_apiserver.target import Target

JsonObject = dict[str, Any]

_GENERATE_ATTEMPTS = 8


def _decoded(api: Api, request: Request, target: Target, options: WriteOptions, body: bytes) -> JsonObject:
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
    body = await request.body()
    ctx = api.context(target, request.user, options.dry_run)
    long = is_long(api, target, len(body))
    stored, generated = await api.run(target, long, partial(_new, api, request, target, options, body, ctx))
    record = None
    for attempt in range(_GENERATE_ATTEMPTS):
        target = target.named(stored["metadata"]["name"])
        # Others wrote meanwhile.
        confirm = partial(_confirm, api, target, ctx) if long or api.dynamic is not None else None
        try:
            record = await store_new(api, target, stored, options.dry_run, confirm)
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
    await _answer(api, request, presenter, 201, record)


def _new(
    api: Api, request: Request, target: Target, options: WriteOptions, body: bytes, ctx: Context
) -> tuple[JsonObject, bool]:
    """The object that a body brings as it is to be stored, and whether its name is made up."""
    obj = _decoded(api, request, target, options, body)
    meta = obj["metadata"]
    match_namespace(target, meta)
    default(target.kind, target.version, obj, ctx.now)
    drop_duplicate_owners(meta, request)
    target = target.named(meta.get("name") or "")
    check_namespace(api, target)
    generated = not target.name and bool(meta.get("generateName"))
    confirm_grant(api, request, target, obj)
    initialize(obj, ctx.now)
    kind, version = target.kind, target.version
    track_update(
        kind, version, None, obj, manager=options.manager, subresource=target.subresource, now=ctx.now
    )
    wanted = into_storage(target, obj, target.version)
    return prepare_create(api, request, target, wanted, ctx), generated


def _confirm(api: Api, target: Target, ctx: Context, current: Record | None, obj: JsonObject) -> None:
    """Look again at what is not the object's own, and may have changed while the object was looked at.

    Raises:
        StatusError: 403, the namespace is going away or a quota would be exceeded.
    """
    if current is None:
        check_namespace(api, target)
    resource_quota(obj, None if current is None else current.object(), ctx, "UPDATE" if current else "CREATE")


async def _answer(api: Api, request: Request, presenter: Presenter, code: int, record: Record) -> None:
    await request.respond(code, await api.one(presenter, record), presenter.accepted.media_type)


async def store_new(
    api: Api, target: Target, obj: JsonObject, dry_run: bool, confirm: Confirm | None = None
) -> Record:
    """Store an object under a name that must be free.

    Raises:
        StatusError: 409, it isn't; or what `confirm` says.
    """

    def change(current: Record | None) -> Put:
        if current is None:
            if confirm is not None:
                confirm(None, obj)
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
    body = await request.body()
    ctx = api.context(target, request.user, options.dry_run)
    decoding = partial(_decoded, api, request, target, options, body)
    obj = await api.apart.run(decoding) if len(body) > MUCH else decoding()
    check_name(target, obj["metadata"])
    created = False
    # What takes long, or calls webhooks, may have to be done more than once.
    long = api.takes_long(target, len(body))
    once = api.dynamic is None and not long

    def change(current: Record | None) -> Put | Remove | None:
        nonlocal created
        if current is None:
            if not target.kind.allow_create_on_update or target.subresource:
                raise not_found(target.qualified, target.name)
            created = True
            default(target.kind, target.version, obj, ctx.now)
            drop_duplicate_owners(obj["metadata"], request)
            return _create_by_update(api, request, target, into_storage(target, obj, target.version), options)
        old = current.object()
        new = obj if once else orjson.loads(dumps(obj))
        wanted = _in_form(request, target, new, old, ctx.now)
        check_uid(target, wanted["metadata"], old["metadata"])
        check_version(target, wanted["metadata"], old["metadata"])
        # What the client changed is its own, also where the strategy takes it back.
        track_changes(target, old, wanted, ctx, options)
        confirm_grant(api, request, target, wanted, old)
        return prepare_update(request, target, wanted, old, ctx, api.admission(request, target))

    confirm = partial(_confirm, api, target, ctx)
    record = await api.write(target, change, options.dry_run, long=long, confirm=confirm)
    assert record is not None
    await _answer(api, request, presenter, 201 if created else 200, record)


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
    check_namespace(api, target)
    ctx = api.context(target, request.user, options.dry_run)
    obj["metadata"].pop("resourceVersion", None)
    initialize(obj, ctx.now)
    confirm_grant(api, request, target, obj)
    stored = prepare_create(api, request, target, obj, ctx)
    confirm_create(ctx, target)
    track_changes(target, None, stored, ctx, options)
    return Put(canonical(stored))


def check_patch_type(kind: Kind, media_type: str) -> None:
    """Raises StatusError, 415, for patches that the kind does not take."""
    accepted = patch_types(kind)
    if media_type in accepted:
        return
    if not kind.unstructured:
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
    ctx = replace(api.context(target, request.user, options.dry_run), verb="patch")
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

    long, confirm = api.takes_long(target, len(body)), partial(_confirm, api, target, ctx)
    record = await api.write(target, change, options.dry_run, long=long, confirm=confirm)
    assert record is not None
    await _answer(api, request, presenter, 201 if created else 200, record)


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
    check_namespace(api, target)
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
