"""``/snapshot``: the whole cluster as one List of objects. Not part of upstream.

GET returns every object as it is stored, or at a past moment below ``/at/MOMENT``. PUT replaces the cluster's
objects. As with etcd's backups, no rule of a kind is checked: a user who may PUT this path may do everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from dra_apiserver.api import Api
from dra_apiserver.errors import bad_request, method_not_allowed
from dra_apiserver.handlers.options import manager_of
from dra_apiserver.handlers.views import View, moment_of
from dra_apiserver.http import Request
from dra_apiserver.kindkit.kind import split_api_version
from dra_apiserver.rest.rewind import Rewound, exclude_staying, rewind, stored_objects
from dra_apiserver.storage import Resource, object_key
from dra_apiserver.storage.authors import Author, set_author

PATH = "/snapshot"
_MOST_BYTES = 1 << 30
_DEFINITIONS = "CustomResourceDefinition"

_Kinds = Mapping[tuple[str, str], Resource]


class _Names(msgspec.Struct):
    plural: str = ""
    kind: str = ""


class _Spec(msgspec.Struct):
    group: str = ""
    names: _Names | None = None


class _Definition(msgspec.Struct):
    spec: _Spec


class _Meta(msgspec.Struct):
    name: str
    namespace: str = ""


class _Head(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str
    metadata: _Meta


class _About(msgspec.Struct):
    """The time of a snapshot, and its version of Kubernetes."""

    kubernetes: str
    revision: str
    time: str


class _Snapshot(msgspec.Struct):
    snapshot: _About
    items: list[msgspec.Raw]


_decode = msgspec.json.Decoder(_Snapshot).decode
_head = msgspec.json.Decoder(_Head).decode
_definition = msgspec.json.Decoder(_Definition).decode


async def answer(api: Api, request: Request) -> None:
    """GET the snapshot, or PUT one.

    Raises:
        StatusError: 400, the body is not a snapshot, or of another version of Kubernetes; 405, another
            method; 410 or 504, the moment does not exist.
    """
    view: View | None = request.view
    if view is not None and view.moment is None:
        raise method_not_allowed()
    if request.method == "GET":
        await _save(api, request, None if view is None else view.moment)
    elif request.method == "PUT" and view is None:
        await _restore(api, request)
    else:
        raise method_not_allowed()


async def _save(api: Api, request: Request, moment: str | None) -> None:
    if moment is None:
        revision, time, objects = api.store.revision, api.now(), stored_objects(api)
    else:
        wanted = await moment_of(api, moment)
        kinds = {kind.storage for kind in api.registry if kind.is_stored} | set(api.store.resources())
        found = {kind: await api.timeline.objects(kind, wanted.revision, "") for kind in sorted(kinds)}
        revision, time = wanted.revision, api.now()
        objects = exclude_staying(
            api, {kind: {k: one.data for k, one in of.items()} for kind, of in found.items()}
        )
    about = _About(str(api.registry.kubernetes), str(revision), time)
    body = await api.offload.run(
        lambda: _list(about, [data for of in objects.values() for data in of.values()])
    )
    await request.respond(200, body)


def _list(about: _About, items: Sequence[bytes]) -> bytes:
    head = orjson.dumps({"resourceVersion": about.revision})
    start = b'{"kind":"List","apiVersion":"v1","metadata":%b,"snapshot":%b,"items":[\n'
    return start % (head, msgspec.json.encode(about)) + b",\n".join(items) + b"\n]}\n"


async def _restore(api: Api, request: Request) -> None:
    body = await request.body(_MOST_BYTES)
    about, objects = await api.offload.run(lambda: _read(api, body))
    if about.kubernetes != str(api.registry.kubernetes):
        raise bad_request(
            f"the snapshot is of Kubernetes {about.kubernetes}, this cluster is {api.registry.kubernetes}"
        )
    agent = request.header(b"user-agent")
    set_author(Author(request.user.name, agent, manager_of(agent), "restore"))
    done = await rewind(api, exclude_staying(api, objects))
    await request.respond(200, orjson.dumps(_report(api, done)))


def _report(api: Api, done: Rewound) -> dict[str, Any]:
    return {
        "kind": "SnapshotRestored",
        "revision": str(api.store.revision),
        "added": done.added,
        "changed": done.changed,
        "removed": done.removed,
        "begun": [{"group": group, "resource": plural, "key": key} for (group, plural), key in done.begun],
    }


def _read(api: Api, body: bytes) -> tuple[_About, dict[Resource, dict[str, bytes]]]:
    try:
        found = _decode(body)
        heads = [_head(item) for item in found.items]
        kinds = dict(_defined_kinds(heads, found.items))
    except msgspec.DecodeError as error:
        raise bad_request(f"the body is not a snapshot: {error}") from None
    objects: dict[Resource, dict[str, bytes]] = {}
    for head, item in zip(heads, found.items, strict=True):
        resource = _resource(api, kinds, head)
        key = object_key(head.metadata.namespace, head.metadata.name)
        objects.setdefault(resource, {})[key] = bytes(item)
    return found.snapshot, objects


def _resource(api: Api, defined: _Kinds, head: _Head) -> Resource:
    try:
        group, version = split_api_version(head.api_version)
    except ValueError as error:
        raise bad_request(str(error)) from None
    known = api.registry.known_kind(group, version, head.kind)
    if known is not None:
        return known.storage
    if (group, head.kind) in defined:
        return defined[group, head.kind]
    raise bad_request(
        f"the snapshot has a {head.kind} of {head.api_version}, which this cluster does not know"
    )


def _defined_kinds(
    heads: Iterable[_Head], items: Iterable[msgspec.Raw]
) -> Iterator[tuple[tuple[str, str], Resource]]:
    """Yield the kinds of the snapshot's own definitions."""
    for head, item in zip(heads, items, strict=True):
        if head.kind == _DEFINITIONS:
            spec = _definition(item).spec
            if spec.names is not None:
                yield (spec.group, spec.names.kind), (spec.group, spec.names.plural)
