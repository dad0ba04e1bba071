"""get, list and watch."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import math
import re
from typing import Any

import orjson
from dra_shared.selectors import parse_field_selector

from dra_apiserver.errors import (
    StatusError,
    bad_request,
    expired,
    not_found,
    too_large_resource_version,
)
from dra_apiserver.handlers.api import Api, Target
from dra_apiserver.handlers.options import ListOptions, list_options, parse_resource_version
from dra_apiserver.http import Request
from dra_apiserver.storage import Record
from dra_apiserver.watch import Selection, WatchStream

JsonObject = dict[str, Any]

_TOKEN_VERSION = "meta.k8s.io/v1"
_FRESH_TIMEOUT = 3.0
_PAGES_KEPT = 4
_PAGE_KEPT_BYTES = 8 << 20


async def get(api: Api, request: Request, target: Target) -> None:
    """One object. A resourceVersion asks for one at least that new."""
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
        raise not_found(target.qualified, target.name)
    await request.respond(200, presenter.one(record.data), presenter.accepted.media_type)


async def wait_until_fresh(api: Api, revision: int) -> None:
    """Wait, three seconds as upstream, for a revision that is not there yet.

    Raises:
        StatusError: 504, it did not come.
    """
    store = api.store
    if revision <= store.revision:
        return
    deadline = api.clock.monotonic() + _FRESH_TIMEOUT
    while revision > store.revision:
        # A revision that no write in progress can reach is not worth the wait.
        if not store.queued or api.clock.monotonic() > deadline:
            raise too_large_resource_version(revision, store.revision)
        await api.clock.sleep(0.005)


async def list_objects(api: Api, request: Request, target: Target) -> None:
    """The objects of a kind, in a namespace or in all."""
    presenter = api.presenter(target, request)
    options = list_options(request, target.kind, watch=False, version=target.version)
    selection = Selection(target.kind, target.namespace, options.labels, options.fields)
    records, metadata = await select(api, target, options, selection)
    page = None
    collection = api.store.collection(target.resource)
    if presenter.plain and selection.everything and metadata["resourceVersion"] == str(api.store.revision):
        # What didn't change since it was last listed needs no encoding.
        place = (selection.prefix, records[0].key if records else "", len(records))
        page = collection.encoded.get(place)
        if page is None:
            page = presenter.page(records)
            if len(collection.encoded) < _PAGES_KEPT and len(page) < _PAGE_KEPT_BYTES:
                collection.encoded[place] = page
    await request.respond(200, presenter.listing(records, metadata, page), presenter.accepted.media_type)


async def select(
    api: Api, target: Target, options: ListOptions, selection: Selection
) -> tuple[list[Record], JsonObject]:
    """A page of the selected objects, all from one revision, and the list's metadata."""
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
    collection = store.collection(target.resource)
    records: dict[str, Record] = collection.records
    overlay: dict[str, Record | None] | None = None
    if revision and revision != store.revision:
        if revision < 0:
            revision = store.revision
        else:
            if options.continue_token and revision < store.compacted:
                error = expired(_token_expired())
                error.status["metadata"] = {"continue": _encode_token(after, -1)}
                raise error
            store.check_revision(revision)
            overlay = store.state(target.resource, revision)
            if overlay is None:
                overlay = await store.state_from_history(target.resource, revision)
    if not revision:
        revision = store.revision
    keys = collection.range(selection.prefix, after)
    metadata: JsonObject = {"resourceVersion": str(revision)}
    # resourceVersion=0 is served from the cache, where upstream ignores the limit.
    limit = 0 if options.resource_version == "0" and not options.continue_token else max(options.limit, 0)
    if overlay:
        found = _as_of(records, keys, overlay, selection.prefix, after)
        total = len(found)
    elif selection.key is not None:
        only = records.get(selection.key)
        found = [only] if only is not None and selection.key > after else []
        total = len(found)
    else:
        total = len(keys)
        # Of what is selected whole no more is touched than the page shows.
        shown = keys[:limit] if limit and selection.everything else keys
        found = [records[key] for key in shown]
    if not limit:
        return selection.filter(found), metadata
    if selection.everything:
        page = found[:limit]
        remaining = total - len(page)
        if remaining:
            metadata["continue"] = _encode_token(page[-1].key, revision)
            metadata["remainingItemCount"] = remaining
        return page, metadata
    page = []
    step = max(limit, 100)
    for start in range(0, len(found), step):
        page += selection.filter(found[start : start + step])
        if len(page) > limit:
            break
    if len(page) > limit:
        page = page[:limit]
        metadata["continue"] = _encode_token(page[-1].key, revision)
    return page, metadata


def _as_of(
    records: dict[str, Record], keys: list[str], overlay: dict[str, Record | None], prefix: str, after: str
) -> list[Record]:
    found = [records[key] for key in keys if key not in overlay]
    changed = [
        record
        for key, record in overlay.items()
        if record is not None and key.startswith(prefix) and key > after
    ]
    return sorted([*found, *changed], key=lambda record: record.key)


def _token_expired() -> str:
    return (
        "The provided continue parameter is too old to display a consistent list result. You can start a new "
        "list without the continue parameter, or use the continue token in this response to retrieve the "
        "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
        "that were created, modified, or deleted between the time the first chunk was returned and now may show "
        "up in the list."
    )


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
        decoded = json.loads(data)
    except ValueError:
        first = data[:1].decode("latin-1") or ""
        text = (
            f"invalid character '{first}' looking for beginning of value"
            if first
            else "unexpected end of JSON input"
        )
        raise bad_request(f"{problem}: {text}") from None
    if not isinstance(decoded, dict) or not isinstance(decoded.get("rv", 0), int):
        raise bad_request(problem)
    if decoded.get("v") != _TOKEN_VERSION:
        raise bad_request(f"{problem}: server does not recognize this encoded version {decoded.get('v', '')}")
    if not decoded.get("rv"):
        raise bad_request(f"{problem}: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    start = decoded.get("start")
    if not isinstance(start, str) or not start:
        raise bad_request(f"{problem}: encoded start key empty (version meta.k8s.io/v1)")
    return start.removesuffix("\x00").lstrip("/"), decoded["rv"]


async def watch(api: Api, request: Request, target: Target) -> None:
    """A stream of events."""
    presenter = api.presenter(target, request)
    options = list_options(request, target.kind, watch=True, version=target.version)
    fields = options.fields
    if target.name:
        # An old path, /watch/… with a name; upstream looks at no other field then.
        fields = parse_field_selector(f"metadata.name={target.name}")
    selection = Selection(target.kind, target.namespace, options.labels, fields)
    store = api.store
    initial = options.send_initial_events
    from_now = not options.revision if initial is None else initial
    too_old: StatusError | None = None
    if not from_now and options.revision:
        if options.revision < store.compacted:
            too_old = expired(f"too old resource version: {options.revision} ({store.compacted})")
    elif initial and options.revision:
        await wait_until_fresh(api, options.revision)
    stream = WatchStream(
        store,
        target.resource,
        selection,
        presenter,
        request.stream,
        api.clock,
        bookmarks=options.bookmarks,
        timeout=options.timeout if math.isfinite(options.timeout) else 3600.0,
        tally=functools.partial(
            api.metrics.watch_events.add, (target.kind.group, target.version, target.kind.plural)
        ),
        write=request.write,
    )
    await request.start_stream("application/json")
    if too_old is not None:
        # The stream has begun when upstream finds out.
        await request.stream(orjson.dumps({"type": "ERROR", "object": too_old.status}) + b"\n", more=False)
        return
    await request.stream(b"")
    gone = asyncio.create_task(request.disconnected())
    gone.add_done_callback(lambda _: stream.stop())
    api.streams.add(stream)
    if api.stopping:
        stream.stop()
    try:
        if from_now:
            collection = store.collection(target.resource)
            records = [collection.records[key] for key in collection.range(selection.prefix)]
            await stream.run_from_now(selection.filter(records), bool(initial and options.bookmarks))
        else:
            await stream.run_after(options.revision or store.revision)
    finally:
        api.streams.discard(stream)
        gone.cancel()
    await request.stream(b"", more=False)
