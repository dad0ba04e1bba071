"""Rewind all objects to an earlier moment, in one transaction. Not part of upstream.

etcd's backup is restored below a stopped API server, so revisions go backwards. Here it is a normal write:
each object that was added, changed or removed since gets a new revision, and watchers get normal events.
Objects that have to be created again get a new uid, because controllers remember deleted uids. References are
updated.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import orjson
from dra_shared.jsontypes import JsonObject

from dra_apiserver.api import Api
from dra_apiserver.kindkit.behaviour import Rewind
from dra_apiserver.rest.meta import new_uid
from dra_apiserver.storage import Put, Record, Remove, Resource

Objects = Mapping[Resource, Mapping[str, bytes]]
"""Objects as they are stored, by resource and key."""
Place = tuple[Resource, str]

# Set by the API server at each write.
_PASSING = ("resourceVersion", "managedFields")
# Also in labels and annotations such as batch.kubernetes.io/controller-uid.
_UIDS = re.compile(rb'(uid":\s*")([0-9a-f-]{36})"')


@dataclass(slots=True)
class Rewound:
    """The number of objects that were added, changed and removed, and the keys of those that start again."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    begun: list[Place] = field(default_factory=list)


@dataclass(slots=True)
class _Entry:
    """An object at the earlier moment and now.

    ``again``: it is created again with a new uid and replaces the current one; ``left``: it is not rewound.
    """

    place: Place
    then: bytes
    now: Record | None
    again: bool
    left: bool = False


def stored_objects(api: Api) -> dict[Resource, dict[str, bytes]]:
    """Return all current objects, except those that rewinding does not change."""
    return exclude_staying(
        api,
        {
            resource: {record.key: record.data for record in api.store.collection(resource).records.values()}
            for resource in api.store.resources()
        },
    )


def exclude_staying(api: Api, objects: Objects) -> dict[Resource, dict[str, bytes]]:
    """Return the objects without those that rewinding does not change."""
    found = {}
    for resource, of in objects.items():
        stays = _rules(api, resource).stays
        found[resource] = {key: data for key, data in of.items() if not stays(key)}
    return found


async def rewind(api: Api, objects: Objects, left: Collection[Place] = ()) -> Rewound:
    """Rewind all objects at once, except those in `left`. Objects that do not differ are not written.

    Raises:
        StatusError: 500, the database failed.
    """
    done = Rewound()
    gone: list[Place] = []
    entries: list[_Entry] = []
    for resource in {*api.store.resources(), *objects}:
        rules, then = _rules(api, resource), objects.get(resource, {})
        now = {record.key: record for record in api.store.newest_in(resource, "")}
        gone += [(resource, key) for key in now if key not in then and not rules.stays(key)]
        entries += [
            _Entry((resource, key), data, now.get(key), again=False, left=True)
            if (resource, key) in left
            else _entry(rules, (resource, key), data, now.get(key))
            for key, data in then.items()
            if not rules.stays(key)
        ]
    done.removed = len(gone)
    uids = _new_uids(entries)
    puts = []
    for entry in entries:
        obj = _object_to_store(_rules(api, entry.place[0]), entry, uids, done)
        if obj is not None:
            puts.append((entry.place, obj))
        if entry.again and entry.now is not None:
            gone.append(entry.place)
    write = api.store.write
    await asyncio.gather(
        *(write(*place, _remove) for place in gone), *(write(*place, _put(obj)) for place, obj in puts)
    )
    return done


def _rules(api: Api, resource: Resource) -> Rewind:
    kind = api.registry.get(*resource)
    return Rewind() if kind is None else kind.rewind


def _entry(rules: Rewind, place: Place, then: bytes, now: Record | None) -> _Entry:
    if now is None:
        return _Entry(place, then, None, again=True)
    if now.data == then or not _differ(rules, _without_uids(now.data), _without_uids(then)):
        return _Entry(place, then, now, again=False)
    current, before = now.object(), orjson.loads(then)
    same = current["metadata"].get("uid") == before["metadata"].get("uid")
    return _Entry(place, then, now, again=not same or rules.ended(current, before))


def _new_uids(entries: Collection[_Entry]) -> dict[bytes, bytes]:
    """Return a new uid for each uid that is replaced."""
    uids = {}
    for entry in entries:
        if entry.now is not None and not entry.again and entry.now.data == entry.then:
            continue
        old = _uid(entry.then)
        new = new_uid().encode() if entry.again or entry.now is None else _uid(entry.now.data)
        if old and old != new:
            uids[old] = new
    return uids


def _uid(data: bytes) -> bytes:
    uid: str = orjson.loads(data)["metadata"].get("uid", "")
    return uid.encode()


def _object_to_store(
    rules: Rewind, entry: _Entry, uids: Mapping[bytes, bytes], done: Rewound
) -> JsonObject | None:
    """Return the object to store; None if it is stored already."""
    if entry.left:
        return None
    data, now = _replace_uids(entry.then, uids), entry.now
    if now is not None and not entry.again and (now.data == data or not _differ(rules, now.data, data)):
        return None
    if entry.now is None:
        done.added += 1
    else:
        done.changed += 1
    obj: JsonObject = orjson.loads(data)
    if entry.again and rules.begin(obj):
        done.begun.append(entry.place)
    return obj


def _replace_uids(data: bytes, uids: Mapping[bytes, bytes]) -> bytes:
    if not uids:
        return data
    return _UIDS.sub(lambda found: b'%b%b"' % (found[1], uids.get(found[2], found[2])), data)


def _without_uids(data: bytes) -> bytes:
    return _UIDS.sub(rb'\1"', data)


def _differ(rules: Rewind, *versions: bytes) -> bool:
    """True if an object differs in more than fields that change by themselves, such as resourceVersion."""
    one, other = (_without_passing(rules, data) for data in versions)
    return one != other


def _without_passing(rules: Rewind, data: bytes) -> JsonObject:
    obj: JsonObject = orjson.loads(data)
    for name in _PASSING:
        obj["metadata"].pop(name, None)
    rules.passing(obj)
    return obj


def _remove(current: Record | None) -> Remove | None:
    if current is None:
        return None
    last = current.object()
    # Containers stop at once, without a grace period.
    last["metadata"].setdefault("deletionTimestamp", last["metadata"]["creationTimestamp"])
    last["metadata"]["deletionGracePeriodSeconds"] = 0
    return Remove(last)


def _put(obj: JsonObject) -> Callable[[Record | None], Put]:
    return lambda _: Put(obj)
