"""update (apiserver's `endpoints/handlers/update.go`)."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from dra_shared.jsontypes import JsonObject

from dra_apiserver.api import Api
from dra_apiserver.equality import copy_object
from dra_apiserver.handlers.bodies import answer, decode_object, write_body
from dra_apiserver.handlers.options import write_options
from dra_apiserver.http import Request
from dra_apiserver.longwrites import MUCH
from dra_apiserver.rest import store
from dra_apiserver.rest.meta import check_name
from dra_apiserver.rest.update import check_uid
from dra_apiserver.rest.write import Write
from dra_apiserver.storage import Record
from dra_apiserver.target import Target


async def update(api: Api, request: Request, target: Target) -> None:
    """Replace the stored object."""
    presenter = api.presenter(target, request)
    options = write_options(request, "UpdateOptions")
    body = await write_body(request, target)
    ctx = api.context(target, request.user, options.dry_run)
    decoding = partial(decode_object, api, request, target, options, body)
    obj = await api.offload.run(decoding) if len(body) > MUCH else decoding()
    check_name(target, obj["metadata"])
    write = Write(api, request, target, ctx, options.manager, api.runner(target, len(body)))
    record, created = await store.update(write, _Replacement(write, obj))
    await answer(api, request, presenter, 201 if created else 200, record)


class _Replacement(NamedTuple):
    """The object of a PUT, which replaces the stored one."""

    write: Write
    obj: JsonObject

    def _own(self) -> JsonObject:
        # The change may be called again, if it takes long, calls webhooks, or if other servers write to the
        # same storage. Each attempt gets a copy, because an attempt sets a resourceVersion, which may belong to
        # another object by the next attempt.
        once = self.write.run is None and not self.write.api.store.follows
        return self.obj if once else copy_object(self.obj)

    def new(self) -> JsonObject | None:
        target = self.write.target
        if not target.kind.writes.allow_create_on_update or target.subresource:
            return None
        obj = self._own()
        meta = obj["metadata"]
        # If the client's object states a uid, that object was deleted, and the client has to read the object
        # again.
        check_uid(target, meta, {"uid": ""})
        meta.pop("resourceVersion", None)
        return obj

    def update(self, current: Record, old: JsonObject) -> JsonObject:
        obj = self._own()
        check_uid(self.write.target, obj["metadata"], old["metadata"])
        return store.default_updated(self.write, obj, old)
