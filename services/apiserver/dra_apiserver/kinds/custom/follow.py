"""Keeps the registry in step with the stored CustomResourceDefinitions."""

import asyncio
from collections.abc import Callable
from typing import Any

from dra_shared.log import logger

from dra_apiserver.api import Api
from dra_apiserver.kinds.custom.definitions import (
    accepted_status,
    ending_status,
    established,
    kind_of_definition,
)
from dra_apiserver.rest.delete import collected
from dra_apiserver.storage import Put, Record, Remove
from dra_apiserver.storage.insist import insist
from dra_apiserver.target import Target

Object = dict[str, Any]

RESOURCE = ("apiextensions.k8s.io", "customresourcedefinitions")
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

_log = logger(__name__)


class Definitions:
    """Serves the kind of every established definition for as long as the definition is there.

    `changed` is set when a kind comes, goes or changes. With `writes` false another server writes what follows from
    a definition: its status, and that its objects go with it.
    """

    def __init__(self, api: Api, *, writes: bool = True) -> None:
        self._api = api
        self._writes = writes
        #: By a definition's name, the resource that it has served, the spec that says how, and whether it is going.
        self._served: dict[str, tuple[tuple[str, str], Object, bool]] = {}
        #: The resources with objects that have to go before their definitions can.
        self._ending: set[tuple[str, str]] = set()
        #: The revisions of the definitions that were looked at.
        self._seen: dict[str, int] = {}
        self.changed = asyncio.Event()

    def load(self) -> None:
        """Serve what was established before, at once: called before the server answers."""
        collection = self._api.store.collection(RESOURCE)
        self._serve_changed()
        # At once, so that a client that has seen another server serve a kind finds it here.
        collection.listen(self._serve_changed)

    def _serve_changed(self) -> None:
        for name, record in list(self._api.store.collection(RESOURCE).records.items()):
            if self._seen.get(name) == record.revision:
                continue
            self._seen[name] = record.revision
            try:
                self._serve(record.object())
            except Exception as error:
                # `run` comes across it, too.
                _log.warning("a definition cannot be served", definition=name, error=str(error))

    async def run(self) -> None:
        """Follow the definitions until cancelled."""
        store, changed = self._api.store, asyncio.Event()
        watched = {RESOURCE}
        store.collection(RESOURCE).listen(changed.set)
        try:
            while True:
                changed.clear()
                await insist(self._api.clock, self._sync)
                for place in self._ending - watched:
                    # What went before this missed the event.
                    store.collection(place).listen(changed.set)
                    changed.set()
                for place in watched - self._ending - {RESOURCE}:
                    store.collection(place).ignore(changed.set)
                watched = {RESOURCE, *self._ending}
                await changed.wait()
        finally:
            for place in watched:
                store.collection(place).ignore(changed.set)

    async def _sync(self) -> None:
        self._ending.clear()
        records = self._api.store.collection(RESOURCE).records
        for name in [name for name in self._served if name not in records]:
            await self._drop(name)
        for record in list(records.values()):
            definition = record.object()
            ending = bool(definition["metadata"].get("deletionTimestamp"))
            if self._writes and not ending:
                await self._accept(definition)
            self._serve(definition)
            if self._writes and ending:
                await self._finish(definition)

    async def _accept(self, definition: Object) -> None:
        """Write the status that says whether the names are the definition's own."""
        registry, group = self._api.registry, definition["spec"]["group"]
        others = [info for info in registry if info.group == group]
        status = accepted_status(definition, others, self._api.now())
        finalizers = definition["metadata"].get("finalizers") or []
        if status == definition.get("status") and FINALIZER in finalizers:
            return
        definition["status"] = status

        def change(current: Record | None) -> Put | None:
            if current is None or str(current.revision) != definition["metadata"]["resourceVersion"]:
                return None
            obj = current.object()
            obj["status"] = status
            obj["metadata"]["finalizers"] = [*(one for one in finalizers if one != FINALIZER), FINALIZER]
            return Put(obj)

        await self._api.store.write(RESOURCE, definition["metadata"]["name"], change)

    def _serve(self, definition: Object) -> None:
        name, registry = definition["metadata"]["name"], self._api.registry
        info = kind_of_definition(definition) if established(definition) else None
        before = self._served.get(name)
        if info is None:
            if before is not None:
                registry.remove(*before[0])
                del self._served[name]
                self.changed.set()
            return
        place = (info.group, info.plural)
        if before is None and registry.get(*place) is not None:
            _log.warning("a definition names a built-in kind; it is ignored", definition=name)
            return
        now = (place, definition["spec"], bool(definition["metadata"].get("deletionTimestamp")))
        if before != now:
            registry.add(info)
            self._served[name] = now
            self.changed.set()
            _log.info("custom kind is served", definition=name, versions=list(info.versions))

    async def _finish(self, definition: Object) -> None:
        """Have the objects of a definition that is going go, then it (apiextensions' `finalizer/crd_finalizer.go`).

        Objects with finalizers go first in their own time.
        """
        meta, spec = definition["metadata"], definition["spec"]
        name, place = meta["name"], (spec["group"], spec["names"]["plural"])
        if FINALIZER not in (meta.get("finalizers") or ()):
            return
        if not await self._write_status(definition, ending=True):
            return
        if established(definition):
            await self._delete_all(place)
            if self._api.store.collection(place).records:
                self._ending.add(place)
                return
        await self._write_status(definition, ending=False)

        def change(current: Record | None) -> Put | Remove | None:
            # Meanwhile another server may have let it go, and a user may have made a new one.
            if current is None or _uid(current) != meta["uid"]:
                return None
            obj = current.object()
            left = [one for one in obj["metadata"].get("finalizers") or () if one != FINALIZER]
            if left == (obj["metadata"].get("finalizers") or []):
                return None
            obj["metadata"]["finalizers"] = left
            if left:
                return Put(obj)
            del obj["metadata"]["finalizers"]
            return Remove(obj)

        await self._api.store.write(RESOURCE, name, change)

    async def _write_status(self, definition: Object, *, ending: bool) -> bool:
        """Write how far the end of a definition is; whether it is still the one that is there."""
        now = self._api.now()

        def change(current: Record | None) -> Put | None:
            if current is None or _uid(current) != definition["metadata"]["uid"]:
                return None
            obj = current.object()
            status = ending_status(obj, ending, now)
            if status == obj.get("status"):
                return None
            obj["status"] = status
            return Put(obj)

        record = await self._api.store.write(RESOURCE, definition["metadata"]["name"], change)
        return record is not None and _uid(record) == definition["metadata"]["uid"]

    async def _delete_all(self, place: tuple[str, str]) -> None:
        """Delete the objects that are there now, as a client would: those with finalizers are marked."""
        kind = self._api.registry.get(*place)
        if kind is None:
            return
        for record in list(self._api.store.collection(place).records.values()):
            namespace, _, name = record.key.rpartition("/")
            target = Target(kind, kind.storage_version, namespace, name)
            await self._api.store.write(place, record.key, self._deleted(target, _uid(record)))

    def _deleted(self, target: Target, uid: str) -> Callable[[Record | None], Put | Remove | None]:
        def change(current: Record | None) -> Put | Remove | None:
            if current is None or _uid(current) != uid:
                return None
            return collected(self._api, target, current.object())

        return change

    async def _clear(self, place: tuple[str, str]) -> None:
        """Remove the objects that are there now; not those that a definition which is made again soon has."""
        for record in list(self._api.store.collection(place).records.values()):
            await self._api.store.write(place, record.key, _gone(_uid(record)))

    async def _drop(self, name: str) -> None:
        place, *_ = self._served.pop(name)
        self._seen.pop(name, None)
        self._api.registry.remove(*place)
        self.changed.set()
        if self._writes:
            await self._clear(place)
        _log.info("custom kind is no longer served", definition=name)


def _uid(record: Record) -> str:
    uid: str = record.object()["metadata"].get("uid", "")
    return uid


def _gone(uid: str) -> Callable[[Record | None], Remove | None]:
    """Removes the object with this uid."""

    def change(current: Record | None) -> Remove | None:
        return None if current is None or _uid(current) != uid else Remove(current.object())

    return change
