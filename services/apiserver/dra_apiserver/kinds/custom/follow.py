"""Keep the registry in sync with the stored CustomResourceDefinitions."""

import asyncio
from collections.abc import Callable

from dra_shared.jsontypes import JsonObject
from dra_shared.log import logger

from dra_apiserver.api import Api
from dra_apiserver.kinds.custom.definitions import (
    accepted_status,
    ending_status,
    is_established,
    kind_of_definition,
)
from dra_apiserver.rest.delete import delete_by_server
from dra_apiserver.storage import Put, Record, Remove
from dra_apiserver.storage.insist import insist
from dra_apiserver.target import Target
from dra_apiserver.webhook import Calls

RESOURCE = ("apiextensions.k8s.io", "customresourcedefinitions")
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

_log = logger(__name__)


class Definitions:
    """Serves the kind of every established definition until the definition is deleted.

    `changed` is set when a kind is added, removed or changed. `calls` calls conversion webhooks.
    """

    def __init__(self, api: Api, calls: Calls | None = None) -> None:
        self._api = api
        self._calls = calls
        #: By the name of a definition: the resource that is served for it, its spec, its stored versions, and
        #: whether it is being deleted.
        self._served: dict[str, tuple[tuple[str, str], JsonObject, list[str], bool]] = {}
        #: The resources whose objects must be deleted before their definitions can be.
        self._ending: set[tuple[str, str]] = set()
        #: The revisions of the definitions that were processed.
        self._seen: dict[str, int] = {}
        self.changed = asyncio.Event()

    def load(self) -> None:
        """Serve the established kinds. Called before the server accepts requests."""
        collection = self._api.store.collection(RESOURCE)
        self._serve_changed()
        # Served at once, because a client may have seen another server serve the kind.
        collection.listen(self._serve_changed)

    def _serve_changed(self) -> None:
        for name, record in list(self._api.store.collection(RESOURCE).records.items()):
            if self._seen.get(name) == record.revision:
                continue
            self._seen[name] = record.revision
            try:
                self._serve(record.object())
            except Exception as error:
                # `run` will process this definition again.
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
                    # Changes before this line missed the event.
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
            if not ending:
                await self._accept(definition)
            self._serve(definition)
            if ending:
                await self._finish(definition)

    async def _accept(self, definition: JsonObject) -> None:
        """Write the status that says whether the definition's names are accepted."""
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

    def _serve(self, definition: JsonObject) -> None:
        name, registry = definition["metadata"]["name"], self._api.registry
        info = kind_of_definition(definition, self._calls) if is_established(definition) else None
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
        stored = (definition.get("status") or {}).get("storedVersions") or []
        now = (place, definition["spec"], stored, bool(definition["metadata"].get("deletionTimestamp")))
        if before != now:
            registry.add(info)
            self._served[name] = now
            self.changed.set()
            _log.info("custom kind is served", definition=name, versions=list(info.versions))

    async def _finish(self, definition: JsonObject) -> None:
        """Delete the objects of a definition that is being deleted, then the definition (apiextensions'
        `finalizer/crd_finalizer.go`).

        Objects with finalizers are only marked. The definition waits for them.
        """
        meta, spec = definition["metadata"], definition["spec"]
        name, place = meta["name"], (spec["group"], spec["names"]["plural"])
        if FINALIZER not in (meta.get("finalizers") or ()):
            return
        if not await self._write_status(definition, ending=True):
            return
        if is_established(definition):
            await self._delete_all(place)
            if self._api.store.collection(place).records:
                self._ending.add(place)
                return
        await self._write_status(definition, ending=False)

        def change(current: Record | None) -> Put | Remove | None:
            # Another server may have removed it meanwhile, and a user may have created a new one.
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

    async def _write_status(self, definition: JsonObject, *, ending: bool) -> bool:
        """Write the progress of a definition's deletion. Return whether the definition is still the same object."""
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
        """Delete the existing objects as a client would. Those with finalizers are only marked."""
        kind = self._api.registry.get(*place)
        if kind is None:
            return
        for record in list(self._api.store.collection(place).records.values()):
            namespace, _, name = record.key.rpartition("/")
            target = Target(kind, kind.storage_version, namespace, name)
            await self._api.store.write(place, record.key, self._create_deletion(target, _uid(record)))

    def _create_deletion(self, target: Target, uid: str) -> Callable[[Record | None], Put | Remove | None]:
        def change(current: Record | None) -> Put | Remove | None:
            if current is None or _uid(current) != uid:
                return None
            return delete_by_server(self._api, target, current.object())

        return change

    async def _clear(self, place: tuple[str, str]) -> None:
        """Remove the existing objects, but not those of a definition that is created again."""
        for record in list(self._api.store.collection(place).records.values()):
            await self._api.store.write(place, record.key, _create_removal(_uid(record)))

    async def _drop(self, name: str) -> None:
        place, *_ = self._served.pop(name)
        self._seen.pop(name, None)
        self._api.registry.remove(*place)
        self.changed.set()
        await self._clear(place)
        _log.info("custom kind is no longer served", definition=name)


def _uid(record: Record) -> str:
    uid: str = record.object()["metadata"].get("uid", "")
    return uid


def _create_removal(uid: str) -> Callable[[Record | None], Remove | None]:
    """Return a change that removes the object with this uid."""

    def change(current: Record | None) -> Remove | None:
        return None if current is None or _uid(current) != uid else Remove(current.object())

    return change
