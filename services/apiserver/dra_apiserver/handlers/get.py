"""get, list and watch (apiserver's `endpoints/handlers/get.go` and `watch.go`)."""

from __future__ import annotations

import asyncio
import base64
import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import orjson
from dra_shared.fieldselectors import parse_field_selector
from dra_shared.jsontypes import JsonObject

from dra_apiserver.api import Api
from dra_apiserver.errors import (
    StatusError,
    bad_request,
    expired_error,
    not_found,
    storage_initializing,
    too_large_resource_version,
)
from dra_apiserver.handlers.options import ListOptions, list_options
from dra_apiserver.handlers.outlet import outlet
from dra_apiserver.http import Request
from dra_apiserver.schema.jsontext import syntax_error
from dra_apiserver.schema.values import json_type
from dra_apiserver.storage import Collection, Record, Resource, Store
from dra_apiserver.storage.versioner import parse_resource_version
from dra_apiserver.target import Target
from dra_apiserver.watch import Selection, WatchStream

T = TypeVar("T")

_TOKEN_VERSION = "meta.k8s.io/v1"
_TOKEN_MEMBERS = (("v", str, "string"), ("rv", int, "int64"), ("start", str, "string"))
_FRESH_TIMEOUT = 3.0
_PAGES_KEPT = 4
# A number of objects whose processing takes about ten milliseconds.
_MANY = 1000
_PAGE_KEPT_BYTES = 8 << 20


async def get(api: Api, request: Request, target: Target) -> None:
    """Respond with one object. A resourceVersion requests one that is at least as new."""
    presenter = api.presenter(target, request)
    wanted = request.query.get("resourceVersion")
    if wanted:
        try:
            revision = parse_resource_version(wanted)
        except ValueError as error:
            raise bad_request(f"invalid resource version: {error}") from None
        await wait_until_fresh(api, revision)
    record = api.store.get(target.resource, target.key)
    if record is None:
        raise not_found(target.qualified_resource, target.name)
    # No conversion is needed if the stored bytes are sent unchanged.
    body = record.data if presenter.quick else await api.one(presenter, record)
    await request.respond(200, body, presenter.accepted.media_type)


async def wait_until_fresh(api: Api, revision: int) -> None:
    """Wait for a future revision, for three seconds as upstream.

    Raises:
        StatusError: 504, the revision was not reached.
    """
    store = api.store
    if revision <= store.revision:
        return
    await store.fresh()
    deadline = api.clock.monotonic() + _FRESH_TIMEOUT
    while revision > store.revision:
        # No write in progress can reach that revision, so waiting is pointless.
        if not store.queue_length or api.clock.monotonic() > deadline:
            raise too_large_resource_version(revision, store.revision)
        await api.clock.sleep(0.005)


async def list_objects(api: Api, request: Request, target: Target) -> None:
    """Respond with the objects of a kind, in one namespace or in all."""
    presenter = api.presenter(target, request)
    options = list_options(request, target.kind, watch=False, version=target.version)
    selection = Selection(target.kind, target.namespace, options.labels, options.fields)
    records, metadata = await select(api, target, options, selection)
    page = None
    collection = api.store.collection(target.resource)
    if presenter.plain and selection.everything and metadata["resourceVersion"] == str(api.store.revision):
        # Use the cached encoding of a list that has not changed.
        place = (selection.prefix, records[0].key if records else "", len(records))
        page = collection.encoded.get(place)
        if page is None:
            page = await _run_apart(api, records, functools.partial(presenter.page, records))
            unchanged = metadata["resourceVersion"] == str(api.store.revision)
            if unchanged and len(collection.encoded) < _PAGES_KEPT and len(page) < _PAGE_KEPT_BYTES:
                collection.encoded[place] = page
    listing = functools.partial(presenter.listing, records, metadata, page)
    await presenter.prepare(record.data for record in records)
    quick = len(records) <= _MANY and not presenter.waits
    body = listing() if quick else await api.offload.run(listing)
    await request.respond(200, body, presenter.accepted.media_type)


async def _run_apart(api: Api, records: Sequence[Record], work: Callable[[], T]) -> T:
    """Return the result of work on the records. With many records, it runs in a thread."""
    return await api.offload.run(work) if len(records) > _MANY else work()


async def select(
    api: Api, target: Target, options: ListOptions, selection: Selection, past: bool = False
) -> tuple[list[Record], JsonObject]:
    """Return a page of the selected objects, all from one revision, and the list's metadata.

    Lists of an exact revision, and requests about the `past`, also read compacted revisions from the archive.
    """
    store = api.store
    after, revision = "", 0
    if options.continue_token:
        after, revision = _decode_token(options.continue_token)
        if options.resource_version and options.resource_version != "0":
            raise bad_request("specifying resource version is not allowed when using continue")
    elif options.match == "Exact":
        revision = options.revision
    elif options.revision:
        await wait_until_fresh(api, options.revision)
    # resourceVersion=0 is served from the cache, where upstream ignores the limit.
    limit = 0 if options.resource_version == "0" and not options.continue_token else max(options.limit, 0)
    if revision <= 0 or revision == store.revision:
        revision = store.revision
        collection = store.collection(target.resource)
        if limit or selection.everything or selection.key is not None:
            page, remaining = _newest(collection, selection, after, limit)
        else:
            records = [collection.records[key] for key in selection.keys(collection, after)]
            page, remaining = await _run_apart(api, records, functools.partial(selection.filter, records)), 0
    else:
        try:
            page, remaining = await (
                _of_archive(api, target.resource, revision, selection, after, limit)
                if revision < store.compacted_revision and (past or options.match == "Exact")
                else _as_of(store, target.resource, revision, selection, after, limit)
            )
        except StatusError as error:
            if options.continue_token and error.code == 410:
                raise _token_expired(after) from None
            raise
    metadata: JsonObject = {"resourceVersion": str(revision)}
    if remaining:
        metadata["continue"] = _encode_token(page[-1].key, revision)
        if selection.everything:
            metadata["remainingItemCount"] = remaining
    return page, metadata


def _newest(collection: Collection, selection: Selection, after: str, limit: int) -> tuple[list[Record], int]:
    """Return a page of the current objects, and how many are left. With a selector, the count is at most 1."""
    records = collection.records
    if selection.key is not None:
        only = records.get(selection.key)
        found = selection.filter([only] if only is not None and selection.key > after else [])
        return found, 0
    keys = selection.keys(collection, after)
    if not limit:
        return selection.filter([records[key] for key in keys]), 0
    if selection.everything:
        # Without a selector, read only the objects of this page.
        return [records[key] for key in keys[:limit]], max(len(keys) - limit, 0)
    page: list[Record] = []
    step = max(limit, 100)
    for start in range(0, len(keys), step):
        page += selection.filter([records[key] for key in keys[start : start + step]])
        if len(page) > limit:
            return page[:limit], 1
    return page, 0


async def _as_of(
    store: Store, resource: Resource, revision: int, selection: Selection, after: str, limit: int
) -> tuple[list[Record], int]:
    """Return the same as `_newest` for an earlier revision."""
    store.check_revision(revision)
    snapshot = await store.snapshot(resource, revision, selection.prefix, after)
    keys = snapshot.keys
    if selection.key is not None:
        keys = [key for key in keys if key == selection.key]
    whole = selection.everything and limit > 0
    page: list[Record] = []
    async for records in snapshot.records(keys[:limit] if whole else keys):
        page += selection.filter(records)
        if 0 < limit < len(page):
            return page[:limit], 1
    return page, max(len(keys) - limit, 0) if whole else 0


async def _of_archive(
    api: Api, resource: Resource, revision: int, selection: Selection, after: str, limit: int
) -> tuple[list[Record], int]:
    """Return the same as `_as_of` for a compacted revision."""
    found = await api.timeline.objects(resource, revision, selection.prefix)
    records = [record for key, record in found.items() if key > after]
    page = await _run_apart(api, records, functools.partial(selection.filter, records))
    return (page[:limit], len(page) - limit) if 0 < limit < len(page) else (page, 0)


def _token_expired(after: str) -> StatusError:
    error = expired_error(
        "The provided continue parameter is too old to display a consistent list result. You can start a new "
        "list without the continue parameter, or use the continue token in this response to retrieve the "
        "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
        "that were created, modified, or deleted between the time the first chunk was returned and now may show "
        "up in the list."
    )
    error.status["metadata"] = {"continue": _encode_token(after, -1)}
    return error


def _encode_token(key: str, revision: int) -> str:
    data = orjson.dumps({"v": _TOKEN_VERSION, "rv": revision, "start": key + "\x00"})
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode_token(token: str) -> tuple[str, int]:
    problem = "invalid continue token: continue key is not valid"
    bad = re.search("[^A-Za-z0-9_-]", token)
    if bad is not None or len(token) % 4 == 1:
        position = bad.start() if bad is not None else len(token) // 4 * 4
        raise bad_request(f"{problem}: illegal base64 data at input byte {position}")
    data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    try:
        decoded = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise bad_request(f"{problem}: {syntax_error(data)}") from None
    if not isinstance(decoded, dict | None):
        text = f"json: cannot unmarshal {json_type(decoded)} into Go value of type storage.continueToken"
        raise bad_request(f"{problem}: {text}")
    decoded = {name: value for name, value in (decoded or {}).items() if value is not None}
    for name, kind, go in _TOKEN_MEMBERS:
        if type(decoded.get(name, kind())) is not kind:
            found = json_type(decoded[name])
            text = f"json: cannot unmarshal {found} into Go struct field continueToken.{name} of type {go}"
            raise bad_request(f"{problem}: {text}")
    if decoded.get("v") != _TOKEN_VERSION:
        raise bad_request(f"{problem}: server does not recognize this encoded version {decoded.get('v', '')}")
    if not decoded.get("rv"):
        raise bad_request(f"{problem}: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    start = decoded.get("start", "")
    if not start:
        raise bad_request(f"{problem}: encoded start key empty (version meta.k8s.io/v1)")
    key = start.removeprefix("/")
    if not {"", ".", ".."}.isdisjoint(key.split("/")):
        raise bad_request(f"{problem}: {start}")
    return key.removesuffix("\x00"), decoded["rv"]


async def watch(api: Api, request: Request, target: Target) -> None:
    """Stream the events of a watch."""
    presenter = api.presenter(target, request, streaming=True)
    options = list_options(request, target.kind, watch=True, version=target.version)
    fields = options.fields
    if target.name:
        # The path is /watch/… with a name. As upstream, the field selector is then ignored.
        fields = parse_field_selector(f"metadata.name={target.name}")
    selection = Selection(target.kind, target.namespace, options.labels, fields)
    store = api.store
    if store.lost:
        raise storage_initializing()
    initial = options.send_initial_events
    from_now = not options.revision if initial is None else initial
    too_old: StatusError | None = None
    if not from_now and options.revision:
        oldest = store.compacted_revision
        if options.revision < oldest:
            too_old = expired_error(f"too old resource version: {options.revision} ({oldest})")
    elif initial and options.revision:
        await wait_until_fresh(api, options.revision)
    compressed = bool(initial and options.bookmarks) and api.features.enabled("WatchListCompression")
    sink = outlet(request, presenter.accepted, compressed=compressed)
    stream = WatchStream(
        store,
        target.resource,
        selection,
        presenter,
        sink.send,
        api.clock,
        bookmarks=options.bookmarks,
        timeout=options.timeout if math.isfinite(options.timeout) else 3600.0,
        tally=functools.partial(
            api.metrics.watch_events.add, (target.kind.group, target.version, target.kind.plural)
        ),
        write=sink.write,
    )
    if not await sink.start():
        return
    if too_old is not None:
        # Upstream only detects this after it has started the response, so the error is an event of the watch.
        await sink.send(presenter.error(too_old.status))
        await sink.end()
        return
    gone = asyncio.ensure_future(sink.wait_until_gone())
    gone.add_done_callback(lambda _: stream.stop())
    api.streams.add(stream)
    if api.stopping or store.lost:
        stream.stop()
    try:
        if from_now:
            collection = store.collection(target.resource)
            records = [collection.records[key] for key in selection.keys(collection)]
            await stream.run_from_now(selection.filter(records), bool(initial and options.bookmarks))
        else:
            await stream.run_after(options.revision or store.revision)
    finally:
        api.streams.discard(stream)
        gone.cancel()
    await sink.end()
