"""The past of the API below ``/at/MOMENT``, and the changes with their authors below ``/history``.

Not part of upstream.

Both are prefixes of an API path. The path selects the objects, and the caller must be allowed to get or list
them. At a past moment, the cluster stands still: only reads are allowed, and watches have no events.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import orjson
from dra_shared.clock import FakeClock
from dra_shared.jsontypes import JsonObject
from dra_shared.moments import parse_moment
from dra_shared.numerals import is_digits

from dra_apiserver.api import USUAL_ROUTES, Api, Handler
from dra_apiserver.errors import StatusError, bad_request, method_not_allowed, not_found
from dra_apiserver.handlers.get import select
from dra_apiserver.handlers.options import list_options
from dra_apiserver.handlers.outlet import outlet
from dra_apiserver.http import Request
from dra_apiserver.negotiation import Accepted
from dra_apiserver.patch.fields import changed_fields
from dra_apiserver.response import Presenter
from dra_apiserver.storage import ADDED, DELETED, MODIFIED, Event, Record
from dra_apiserver.storage.archive.reading import Entry
from dra_apiserver.storage.authors import author_of
from dra_apiserver.storage.sessions import Moment, Range
from dra_apiserver.target import Target
from dra_apiserver.watch import Selection

HISTORY = "/history"
_AT = "/at/"
_PREFIXES = (_AT, HISTORY)
_LIMIT, _MOST = 500, 5000
_MANY = 20
_PARTS = frozenset({"", "status"})


class View(NamedTuple):
    """The view that a prefix requests: the changes, or the objects at a ``moment``."""

    moment: str | None


def enter(request: Request) -> None:
    """Remove the prefix (`/at/MOMENT` or `/history`) from the request's path.

    Raises:
        StatusError: 400, the moment is missing.
    """
    path = request.path
    if not path.startswith(_PREFIXES):
        return
    if path.startswith(_AT):
        moment, slash, rest = path.removeprefix(_AT).partition("/")
        if not moment:
            raise bad_request("a moment must follow /at/, such as /at/-5m/api/v1/pods")
        request.view, request.path = View(moment), slash + rest or "/"
    elif path.startswith(f"{HISTORY}/"):
        request.view, request.path = View(None), path.removeprefix(HISTORY)


def handler(api: Api, view: View, verb: str, found: Handler, target: Target) -> Handler:
    """Return the handler of a request in the view.

    Raises:
        StatusError: 405, the request is a write, or about objects that are not stored.
    """
    kind = target.kind
    if view.moment is not None and verb == "create" and "list" not in kind.verbs:
        # Reviews are not stored: clients use them to find out what they may do.
        return found
    own = api.routes.get((kind.group, kind.plural), USUAL_ROUTES)
    if "GET" in own.collection or "GET" in own.object or target.subresource not in _PARTS:
        raise method_not_allowed()
    if view.moment is None:
        if verb not in {"get", "list"}:
            raise method_not_allowed()
        return _changes
    handlers: dict[str, Handler] = {
        "get": partial(_get, view.moment),
        "list": partial(_list, view.moment),
        "watch": partial(_watch, view.moment),
    }
    if verb not in handlers:
        raise method_not_allowed()
    return handlers[verb]


async def bounds(api: Api, request: Request) -> None:
    """Respond to ``/history`` with the oldest and the newest moment, and with ``?at=`` that moment.

    Raises:
        StatusError: 400, 410 or 504, the moment does not exist.
    """
    if request.method not in {"GET", "HEAD"}:
        raise method_not_allowed()
    timeline = api.timeline
    answer = {
        "oldest": _format_moment(await timeline.oldest()),
        "newest": _format_moment(await timeline.moment(api.store.revision)),
    }
    if "at" in request.query:
        answer["at"] = _format_moment(await moment_of(api, request.query["at"]))
    await request.respond(200, orjson.dumps(answer))


def _format_moment(moment: Moment) -> JsonObject:
    return {"revision": str(moment.revision), "time": _time(moment.time)}


def _time(milliseconds: int) -> str | None:
    if not milliseconds:
        return None
    text = datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


async def moment_of(api: Api, text: str) -> Moment:
    """Return the moment that a text names.

    Raises:
        StatusError: 400, 410 or 504, the moment does not exist.
    """
    try:
        wanted = parse_moment(text, api.clock.now())
    except ValueError as error:
        raise bad_request(str(error)) from None
    return await api.timeline.moment(wanted)


async def _still(api: Api, request: Request, target: Target, text: str) -> tuple[Moment, Presenter]:
    """Return the moment, and a presenter for it: ages are relative to it."""
    moment = await moment_of(api, text)
    usual = api.presenter(target, request)
    now = datetime.fromtimestamp(moment.time / 1000, UTC) if moment.time else api.clock.now()
    clock = FakeClock(now)
    return moment, Presenter(target.kind, target.version, usual.accepted, usual.include_object, clock)


async def _get(text: str, api: Api, request: Request, target: Target) -> None:
    moment, presenter = await _still(api, request, target, text)
    record = await api.timeline.at(target.resource, moment.revision, target.key)
    if record is None:
        raise not_found(target.qualified_resource, target.name)
    await request.respond(200, await api.one(presenter, record), presenter.accepted.media_type)


async def _list(text: str, api: Api, request: Request, target: Target) -> None:
    moment, presenter = await _still(api, request, target, text)
    options = list_options(request, target.kind, watch=False, version=target.version)
    if not options.continue_token:
        revision = moment.revision
        options = replace(options, match="Exact", revision=revision, resource_version=str(revision))
    selection = Selection(target.kind, target.namespace, options.labels, options.fields)
    records, metadata = await select(api, target, options, selection, past=True)
    body = await api.offload.run(partial(presenter.listing, records, metadata))
    await request.respond(200, body, presenter.accepted.media_type)


async def _watch(text: str, api: Api, request: Request, target: Target) -> None:
    """Serve a watch of a past moment: send the objects if the client wants them, but no events."""
    moment, presenter = await _still(api, request, target, text)
    options = list_options(request, target.kind, watch=True, version=target.version)
    selection = Selection(target.kind, target.namespace, options.labels, options.fields)
    wants_objects = options.send_initial_events
    if wants_objects is None:
        wants_objects = not options.revision
    revision = moment.revision
    records: list[Record] = []
    if wants_objects:
        exact = replace(options, match="Exact", revision=revision, limit=0, continue_token="")
        records, _ = await select(api, target, exact, selection)
    sink = outlet(request, presenter.accepted)
    if not await sink.start():
        return
    for record in records:
        await sink.send(presenter.event("ADDED", record.data))
    if options.bookmarks and options.send_initial_events:
        await sink.send(presenter.bookmark(revision, initial_end=True))
    timeout = options.timeout if math.isfinite(options.timeout) else 3600.0
    gone = asyncio.ensure_future(sink.wait_until_gone())
    api.silent.add(gone)
    try:
        await asyncio.wait([gone], timeout=timeout)
    finally:
        api.silent.discard(gone)
        gone.cancel()
    await sink.end()


async def _changes(api: Api, request: Request, target: Target) -> None:
    """Respond with the changes of an object or a collection, oldest first: the author, the fields and the time."""
    query = request.query
    after = await _begin(api, query["from"], request.flag("net")) if "from" in query else 0
    until = (await moment_of(api, query["to"])).revision if "to" in query else api.store.revision
    limit = _number(request, "limit") or _LIMIT
    if request.flag("net"):
        if "from" not in query:
            raise bad_request("net compares two moments: set from to the first one")
        await _net(api, request, target, after, until)
        return
    order = query.get("order", "newest")
    if order not in {"newest", "oldest"}:
        raise bad_request(f"order must be newest or oldest, not {order!r}")
    wanted = Range(
        target.resource,
        f"{target.namespace}/" if target.namespace else "",
        target.key if target.name else None,
        after,
        until,
        min(limit, _MOST),
        order == "newest",
    )
    entries = await api.timeline.entries(wanted)
    presenter = Presenter(target.kind, target.version, Accepted(), "", api.clock)
    fields = "changes" not in query or request.flag("changes")
    shown = partial(_all_shown, presenter, entries, fields, request.flag("objects"))
    items = shown() if len(entries) < _MANY else await api.offload.run(shown)
    answer = {
        "kind": "ChangeList",
        "from": str(after),
        "to": str(until),
        "more": len(entries) == wanted.limit,
        "items": items,
    }
    await request.respond(200, orjson.dumps(answer))


async def _begin(api: Api, text: str, exact: bool) -> int:
    """Return the revision of a moment. Unless it must be `exact`, use the oldest revision if it is no longer kept."""
    try:
        return (await moment_of(api, text)).revision
    except StatusError as error:
        if exact or error.code != 410:
            raise
        return 0


async def _net(api: Api, request: Request, target: Target, after: int, until: int) -> None:
    """Respond with the differences between two moments, object by object."""
    old, new = await _versions(api, target, after), await _versions(api, target, until)
    presenter = Presenter(target.kind, target.version, Accepted(), "", api.clock)
    entries = []
    for key in sorted(old.keys() | new.keys()):
        before, record = old.get(key), new.get(key)
        if record is None:
            event = Event(DELETED, old[key], before)
        elif before is None:
            event = Event(ADDED, record, None)
        elif before.revision != record.revision:
            event = Event(MODIFIED, record, before)
        else:
            continue
        entries.append(Entry(event, 0, ""))
    fields = "changes" not in request.query or request.flag("changes")
    shown = partial(_all_shown, presenter, entries, fields, request.flag("objects"))
    items = await api.offload.run(shown)
    for item in items:
        # The entry summarizes several changes, which may have different authors, so it has no author.
        del item["time"], item["user"]
    answer = {"kind": "ChangeList", "from": str(after), "to": str(until), "more": False, "items": items}
    await request.respond(200, orjson.dumps(answer))


async def _versions(api: Api, target: Target, revision: int) -> dict[str, Record]:
    if target.name:
        record = await api.timeline.at(target.resource, revision, target.key)
        return {} if record is None else {record.key: record}
    prefix = f"{target.namespace}/" if target.namespace else ""
    return await api.timeline.objects(target.resource, revision, prefix)


def _number(request: Request, name: str) -> int:
    text = request.query.get(name, "") or "0"
    if not is_digits(text) or len(text) > 9:
        raise bad_request(f"{name} must be a number, not {text!r}")
    return int(text)


def _all_shown(presenter: Presenter, entries: list[Entry], fields: bool, objects: bool) -> list[JsonObject]:
    return [_entry(presenter, entry, fields, objects) for entry in entries]


def _entry(presenter: Presenter, entry: Entry, fields: bool, objects: bool) -> JsonObject:
    """Return an entry for clients. The changed fields are only known if the previous version is still stored."""
    event = entry.event
    namespace, _, name = event.key.rpartition("/")
    shown: JsonObject = {
        "revision": str(event.revision),
        "time": _time(entry.time),
        "type": event.type,
        **({"namespace": namespace} if namespace else {}),
        "name": name,
        **{key: value for key, value in author_of(entry.author)._asdict().items() if value},
    }
    if fields and event.type == MODIFIED and event.previous is not None:
        versions = (presenter.decode(event.previous.data), presenter.decode(event.record.data))
        changes = changed_fields(presenter.kind, presenter.version, *versions)
        shown["changes"] = [
            {key: value for key, value in change._asdict().items() if value is not None} for change in changes
        ]
    if objects:
        shown["object"] = orjson.Fragment(presenter.json(event.record.data))
    return shown
