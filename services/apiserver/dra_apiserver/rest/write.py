"""A request that writes, as the pipeline has it (upstream's `RequestScope`, options and request info)."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from dra_apiserver.admission import Chain
from dra_apiserver.api import Api
from dra_apiserver.conversion import convert, to_storage
from dra_apiserver.equality import copied
from dra_apiserver.http import Request
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.patch import track_update
from dra_apiserver.storage.guaranteedupdate import Run
from dra_apiserver.target import Target

JsonObject = dict[str, Any]
T = TypeVar("T")


class Write(NamedTuple):
    """A request that changes one object; nothing of it changes on the way.

    ``manager`` is who owns what it changes. ``tracked`` says that managedFields are brought up to date from what
    changes, ``registered`` that policies and webhooks judge the object: both are false where that is done already.
    ``run`` runs what takes long or calls webhooks; None where the store's own step decides at once.
    """

    api: Api
    request: Request
    target: Target
    ctx: Context
    manager: str
    run: Run | None
    tracked: bool = True
    registered: bool = True

    def named(self, name: str) -> Write:
        """The same write of an object with this name."""
        return self._replace(target=self.target.named(name))

    def chain(self, target: Target) -> Chain:
        """The admission chain for one attempt to write the target, which may have got its name only now."""
        return Chain(self.api.dynamic.of(self.request, target)) if self.registered else Chain()

    def is_stored_form(self) -> bool:
        """Whether the request's version is the one in which objects are stored."""
        kind = self.target.kind
        return self.target.version == kind.storage_version and kind.storage == (kind.group, kind.plural)

    def to_storage(self, obj: JsonObject) -> JsonObject:
        """An object of the request's version in the stored form."""
        if self.is_stored_form():
            return obj
        return to_storage(self.target.kind, obj, self.target.version)

    def from_storage(self, obj: JsonObject) -> JsonObject:
        """A stored object in the request's version, which uses it up."""
        return obj if self.is_stored_form() else convert(self.target.kind, obj, self.target.version)

    def track(self, old: JsonObject | None, obj: JsonObject) -> None:
        """Write into managedFields what the manager changed; both objects are in the request's version."""
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
        """As `track`, of objects in the stored form: fields are owned in the request's version."""
        if self.is_stored_form():
            self.track(old, obj)
            return
        seen = self.from_storage(copied(obj))
        self.track(self.from_storage(copied(old)), seen)
        if "managedFields" in seen["metadata"]:
            obj["metadata"]["managedFields"] = seen["metadata"]["managedFields"]
        else:
            obj["metadata"].pop("managedFields", None)
