"""patch and apply (apiserver's `endpoints/handlers/patch.go`)."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from dra_shared.jsontypes import JsonObject

from dra_apiserver.api import Api
from dra_apiserver.errors import StatusError, conflict
from dra_apiserver.handlers.bodies import answer, write_body
from dra_apiserver.handlers.mechanisms import Apply, mechanism
from dra_apiserver.handlers.options import WriteOptions, write_options
from dra_apiserver.http import Request
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.patch import APPLY_CBOR_PATCH, APPLY_PATCH, apply_from_cbor, patch_types
from dra_apiserver.rest import store
from dra_apiserver.rest.meta import check_name
from dra_apiserver.rest.write import Write
from dra_apiserver.storage import Record
from dra_apiserver.target import Target


def patch_type(request: Request, kind: Kind) -> str:
    """Return the media type of a request's patch.

    Raises:
        StatusError: 415, the kind does not support it.
    """
    media_type = request.header(b"content-type").partition(";")[0].strip()
    accepted = patch_types(kind, with_cbor=request.cbor)
    if media_type in accepted:
        return media_type
    if not kind.unstructured:
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    text = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    raise StatusError(415, "UnsupportedMediaType", text)


async def patch(api: Api, request: Request, target: Target) -> None:
    """Patch the stored object."""
    media_type = patch_type(request, target.kind)
    presenter = api.presenter(target, request)
    body = await write_body(request, target)
    if media_type == APPLY_CBOR_PATCH:
        media_type, body = APPLY_PATCH, apply_from_cbor(body)
    applying = media_type == APPLY_PATCH
    options = write_options(request, "PatchOptions", apply=applying)
    ctx = api.context(target, request.user, options.dry_run, verb="patch")
    run = api.runner(target, len(body))
    write = Write(api, request, target, ctx, options.manager, run, tracked=not applying)
    record, created = await store.update(write, _Patch(write, options, media_type, body))
    await answer(api, request, presenter, 201 if created else 200, record)


class _Patch(NamedTuple):
    """The update of a PATCH request. A server-side apply updates managedFields itself, and may create the object."""

    write: Write
    options: WriteOptions
    media_type: str
    body: bytes

    def new(self) -> JsonObject | None:
        write, target = self.write, self.write.target
        if self.media_type != APPLY_PATCH or target.subresource:
            return None
        patched = Apply(target, self.body, self.options).create(write.ctx.now)
        write.request.warn(patched.warnings)
        obj = patched.obj
        meta = obj.setdefault("metadata", {})
        if meta.get("uid"):
            text = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
            raise conflict(target.qualified_resource, target.name, text)
        check_name(target, meta)
        meta.pop("resourceVersion", None)
        return obj

    def update(self, current: Record, old: JsonObject) -> JsonObject:
        write, target = self.write, self.write.target
        how = mechanism(write.api.registry, target, self.body, self.media_type, self.options)
        patched = how.patch(partial(_present, write, current), write.ctx.now)
        write.request.warn(patched.warnings)
        obj = patched.obj
        if obj.get("metadata") is None:
            obj["metadata"] = {}
        obj["kind"], obj["apiVersion"] = target.kind.kind, target.kind.api_version(target.version)
        check_name(target, obj["metadata"])
        return store.default_updated(write, obj, old)


def _present(write: Write, current: Record) -> JsonObject:
    """Return a stored object in the request's version."""
    return write.from_storage(current.object())
