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
    drop_duplicate_owners,
    initialize,
    into_storage,
    match_namespace,
    prepare_create,
    prepare_update,
    track_changes,
)
from dra_apiserver.handlers.options import WriteOptions, write_options
from dra_apiserver.http import Request
from dra_apiserver.patch import decode_apply, patch_object, reset_fields, server_side_apply, track_update
from dra_apiserver.present import canonical
from dra_apiserver.schema import decode, default, sanitize
from dra_apiserver.schema.unstructured import sanitize_patched
from dra_apiserver.storage import Put, Record, Remove
from dra_apiserver.strategy import strategy_for

JsonObject = dict[str, Any]

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"
_PATCHES = frozenset({_JSON_PATCH, _MERGE_PATCH, _STRATEGIC_PATCH, _APPLY_PATCH})
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
    strategy = strategy_for(target.kind, target.subresource)
    created = False

    def change(current: Record | None) -> Put | Remove | None:
        nonlocal created
        if current is None:
            if not strategy.allow_create_on_update or target.subresource:
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
    stored = prepare_create(api, request, target, obj, ctx)
    track_changes(target, None, stored, ctx, options)
    return Put(canonical(stored))


async def patch(api: Api, request: Request, target: Target) -> None:
    """Change the stored object as the body says."""
    media_type = request.header(b"content-type").partition(";")[0].strip()
    if media_type not in _PATCHES or (media_type == _STRATEGIC_PATCH and target.kind.custom is not None):
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    presenter = api.presenter(target, request)
    body = await request.body()
    applying = media_type == _APPLY_PATCH
    options = write_options(request, "PatchOptions", apply=applying)
    ctx = api.context(target, request.user, options.dry_run)
    ctx.verb = "patch"
    created = False

    def change(current: Record | None) -> Put | Remove | None:
        nonlocal created
        mechanism = _Apply(target, body, options) if applying else _Patch(target, body, media_type)
        if current is None:
            if not applying or target.subresource:
                raise not_found(target.qualified, target.name)
            created = True
            return _create_by_apply(api, request, target, mechanism.result(None, ctx.now), options)
        seen = current.object()
        if not _is_stored_form(target):
            seen = convert(target.kind, seen, target.version)
        obj = mechanism.result(seen, ctx.now)
        if obj.get("metadata") is None:
            obj["metadata"] = {}
        if problems := mechanism.sanitize(obj, options.field_validation):
            request.warn(problems)
        obj["kind"], obj["apiVersion"] = target.kind.kind, target.kind.api_version(target.version)
        check_name(target, obj["metadata"])
        old = current.object()
        wanted = _in_form(request, target, obj, old, ctx.now)
        check_version(target, wanted["metadata"], old["metadata"])
        if not applying:
            track_changes(target, old, wanted, ctx, options)
        return prepare_update(request, target, wanted, old, ctx, api.admission(request, target))

    record = await (api.dynamic or api.store).write(target.resource, target.key, change, options.dry_run)
    assert record is not None
    await request.respond(201 if created else 200, presenter.one(record.data), presenter.accepted.media_type)


def _is_stored_form(target: Target) -> bool:
    kind = target.kind
    return target.version == kind.storage_version and kind.storage == (kind.group, kind.plural)


class _Patch:
    """A JSON, merge or strategic merge patch."""

    def __init__(self, target: Target, body: bytes, media_type: str) -> None:
        self._target = target
        self._body = body
        self._media_type = media_type

    def result(self, seen: JsonObject | None, now: str) -> JsonObject:
        assert seen is not None
        return patch_object(self._target.kind, self._target.version, seen, self._body, self._media_type)

    def sanitize(self, obj: JsonObject, field_validation: str) -> list[str]:
        kind, version = self._target.kind, self._target.version
        if self._media_type == _JSON_PATCH:
            return sanitize(kind, version, obj, field_validation)
        patch = orjson.loads(self._body)
        if self._media_type == _STRATEGIC_PATCH:
            return sanitize_patched(kind, version, obj, patch, field_validation)
        return sanitize(kind, version, obj, field_validation, touched=patch)


class _Apply:
    """A server-side apply."""

    def __init__(self, target: Target, body: bytes, options: WriteOptions) -> None:
        self._target = target
        self._options = options
        self._applied = decode_apply(body)
        self._check()

    def _check(self) -> None:
        target, applied = self._target, self._applied
        if applied.get("metadata") is None:
            applied["metadata"] = {}
        if not isinstance(applied["metadata"], dict):
            raise bad_request("error decoding patch: metadata must be an object")
        want = (target.kind.api_version(target.version), target.kind.kind)
        found = (applied.get("apiVersion") or "", applied.get("kind") or "")
        if found != want:
            name = found[0] if "/" in str(found[0]) else f"/{found[0]}"
            raise bad_request(f"invalid object type: {name}, Kind={found[1]}")

    def sanitize(self, obj: JsonObject, field_validation: str) -> list[str]:
        kind, version = self._target.kind, self._target.version
        return sanitize(kind, version, obj, field_validation, touched=self._applied)

    def result(self, seen: JsonObject | None, now: str) -> JsonObject:
        target, options = self._target, self._options
        meta = self._applied.get("metadata") or {}
        if meta.get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        return server_side_apply(
            target.kind,
            target.version,
            seen,
            self._applied,
            manager=options.manager,
            force=bool(options.force),
            subresource=target.subresource,
            now=now,
        )


def _create_by_apply(
    api: Api, request: Request, target: Target, obj: JsonObject, options: WriteOptions
) -> Put:
    meta = obj.setdefault("metadata", {})
    meta.setdefault("name", target.name)
    if meta.get("uid"):
        text = (
            f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
        )
        raise conflict(target.qualified, target.name, text)
    if meta["name"] != target.name:
        raise bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({target.name})"
        )
    match_namespace(target, meta)
    check_namespace(api, target, creating=True)
    request.warn(sanitize(target.kind, target.version, obj, options.field_validation))
    ctx = api.context(target, request.user, options.dry_run)
    default(target.kind, target.version, obj, ctx.now)
    meta.pop("uid", None)
    meta.pop("resourceVersion", None)
    initialize(obj, ctx.now)
    return Put(prepare_create(api, request, target, into_storage(target, obj, target.version), ctx))
