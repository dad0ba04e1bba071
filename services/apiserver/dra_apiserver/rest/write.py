"""A write request during its processing (upstream's `RequestScope`, options and request info)."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from dra_shared.jsontypes import JsonObject

from dra_apiserver.admission import Chain
from dra_apiserver.api import Api
from dra_apiserver.conversion import convert, to_storage
from dra_apiserver.equality import copy_object
from dra_apiserver.http import Request
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.patch import track_update
from dra_apiserver.storage.guaranteedupdate import Run
from dra_apiserver.target import Target

T = TypeVar("T")


class Write(NamedTuple):
    """An immutable description of a request that changes one object.

    ``manager`` owns its changes. ``tracked``: managedFields are updated from the changes. ``registered``:
    policies and webhooks process the object. Both are false if that was already done for this request. ``run``
    runs work that takes long or calls webhooks in a thread; None if the change is computed directly in the
    store's write.
    """

    api: Api
    request: Request
    target: Target
    ctx: Context
    manager: str
    run: Run | None
    tracked: bool = True
    registered: bool = True

    def with_name(self, name: str) -> Write:
        """Return the same write for an object with this name."""
        return self._replace(target=self.target.with_name(name))

    def chain(self, target: Target) -> Chain:
        """Return the admission chain for one attempt to write the target, whose name may have been generated
        since.
        """
        return Chain(self.api.dynamic.of(self.request, target)) if self.registered else Chain()

    def is_stored_form(self) -> bool:
        """True if the request's version is the storage version."""
        kind = self.target.kind
        return self.target.version == kind.storage_version and kind.storage == (kind.group, kind.plural)

    def to_storage(self, obj: JsonObject) -> JsonObject:
        """Convert an object from the request's version to the storage version."""
        if self.is_stored_form():
            return obj
        return to_storage(self.target.kind, obj, self.target.version)

    def from_storage(self, obj: JsonObject) -> JsonObject:
        """Convert a stored object, in place, to the request's version."""
        return obj if self.is_stored_form() else convert(self.target.kind, obj, self.target.version)

    def track(self, old: JsonObject | None, obj: JsonObject) -> None:
        """Record the manager's changes in managedFields. Both objects are in the request's version."""
        target = self.target
        track_update(
            target.kind,
            target.version,
            old,
            obj,
            manager=self.manager,
            subresource=target.subresource,
            now=self.ctx.now,
        )

    def track_stored(self, old: JsonObject, obj: JsonObject) -> None:
        """Do the same as `track` for objects in the storage version. Fields are owned in the request's version."""
        if self.is_stored_form():
            self.track(old, obj)
            return
        seen = self.from_storage(copy_object(obj))
        self.track(self.from_storage(copy_object(old)), seen)
        if "managedFields" in seen["metadata"]:
            obj["metadata"]["managedFields"] = seen["metadata"]["managedFields"]
        else:
            obj["metadata"].pop("managedFields", None)
