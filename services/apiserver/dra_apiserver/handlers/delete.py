"""delete and deletecollection (apiserver's `endpoints/handlers/delete.go`)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from dra_apiserver.api import Api
from dra_apiserver.errors import StatusError, forbidden_error
from dra_apiserver.handlers.deleteoptions import delete_options
from dra_apiserver.handlers.get import select
from dra_apiserver.handlers.options import list_options
from dra_apiserver.http import Request
from dra_apiserver.negotiation import encode_status
from dra_apiserver.response import Presenter
from dra_apiserver.rest.delete import DeleteOptions, remove
from dra_apiserver.storage import Record
from dra_apiserver.target import Target
from dra_apiserver.watch import Selection

_DELETE_TOGETHER = 32


async def delete(api: Api, request: Request, target: Target) -> None:
    """Delete one object, or mark it for deletion."""
    presenter = api.presenter(target, request)
    options = await delete_options(request)
    if target.name in target.kind.deletion.undeletable:
        raise forbidden_error(
            target.qualified_resource, target.name, target.kind.deletion.undeletable[target.name]
        )
    _warn_of_orphans(request, target, options)
    chain = api.chain(request, target, options.as_object)
    record, gone = await remove(api, request, target, options, chain)
    await _answer(api, request, target, presenter, record, gone)


def _warn_of_orphans(request: Request, target: Target, options: DeleteOptions) -> None:
    if target.kind.deletion.orphans_warning and options.has_default_propagation:
        request.warn([target.kind.deletion.orphans_warning])


async def _answer(
    api: Api, request: Request, target: Target, presenter: Presenter, record: Record, gone: bool
) -> None:
    if not gone or target.kind.deletion.return_deleted_object:
        await request.respond(200, await api.one(presenter, record), presenter.accepted.media_type)
        return
    details = {
        "name": target.name,
        **({"group": target.kind.group} if target.kind.group else {}),
        "kind": target.kind.plural,
        "uid": record.object()["metadata"]["uid"],
    }
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    await request.respond(200, encode_status(status, presenter.accepted), presenter.accepted.media_type)


async def delete_collection(api: Api, request: Request, target: Target) -> None:
    """Delete the selected objects one by one. The response lists them."""
    presenter = api.presenter(target, request)
    listing = list_options(request, target.kind, watch=False, version=target.version)
    options = await delete_options(request)
    _warn_of_orphans(request, target, options)
    selection = Selection(target.kind, target.namespace, listing.labels, listing.fields)
    records, metadata = await select(api, target, replace(listing, limit=0), selection)
    done: list[Record] = []

    async def one(record: Record) -> None:
        namespace, _, name = record.key.rpartition("/")
        item = Target(target.kind, target.version, namespace, name)
        try:
            # Admission gets no name, because the request is for many objects.
            chain = api.chain(request, item, options.as_object, named=False)
            await remove(api, request, item, options, chain)
        except StatusError as error:
            if error.code != 404:
                raise
        else:
            # Upstream responds with the objects as they were listed.
            done.append(record)

    for start in range(0, len(records), _DELETE_TOGETHER):
        await asyncio.gather(*(one(record) for record in records[start : start + _DELETE_TOGETHER]))
    done.sort(key=lambda record: record.key)
    metadata["resourceVersion"] = str(api.store.revision)
    await presenter.prepare(record.data for record in done)
    listed = partial(presenter.listing, done, metadata)
    # Encode a short list without a thread: each kubelet deletes its node's slices at its start, usually few or
    # none.
    body = await api.offload.run(listed) if len(done) > _DELETE_TOGETHER or presenter.waits else listed()
    await request.respond(200, body, presenter.accepted.media_type)
