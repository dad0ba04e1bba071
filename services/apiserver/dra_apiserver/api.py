"""The context that every handler gets, and the type of a handler."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from dra_shared.clock import Clock, rfc3339
from dra_shared.jsontypes import JsonObject

from dra_apiserver import cbor
from dra_apiserver.admission import Chain, Dynamic, NoDynamic
from dra_apiserver.authorization import Attributes, Authorizer
from dra_apiserver.config import Config
from dra_apiserver.credentials import Credentials
from dra_apiserver.http import Request
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kindkit.strategy import Authorize, Context, allow
from dra_apiserver.longwrites import MUCH, is_long
from dra_apiserver.metrics import Metrics
from dra_apiserver.negotiation import Accepted, negotiate
from dra_apiserver.offload import Offload
from dra_apiserver.protobuf import MEDIA_TYPE
from dra_apiserver.registry import Registry
from dra_apiserver.response import Presenter, message_name, other_metadata
from dra_apiserver.serviceaccount import Keys, Tokens
from dra_apiserver.storage import Record, Resource, Store, object_key
from dra_apiserver.storage.guaranteedupdate import Confirm, Run, guaranteed_update
from dra_apiserver.storage.identity import Identity
from dra_apiserver.storage.persistence import persist
from dra_apiserver.storage.store import ChangeFunction
from dra_apiserver.storage.timeline import Timeline
from dra_apiserver.target import Target
from dra_apiserver.user import ADMINISTRATOR, ANONYMOUS, UserInfo
from dra_apiserver.watch import WatchStream

Handler = Callable[["Api", Request, Target], Awaitable[None]]
"""Answers a request about a target."""
Route = tuple[str, Handler]
"""The verb that an HTTP method stands for, and the handler that answers it."""


@dataclass(frozen=True, slots=True)
class Routes:
    """The handlers of one kind that replace the usual ones, each by HTTP method."""

    collection: Mapping[str, Route] = field(default_factory=dict)
    object: Mapping[str, Route] = field(default_factory=dict)
    subresources: Mapping[str, Mapping[str, Route]] = field(default_factory=dict)
    """By subresource. One without an entry is a part of the object, or a scale."""


USUAL_ROUTES = Routes()


class Api:
    """The store, the registry and the settings that handlers need. A server has one such object."""

    def __init__(
        self,
        config: Config,
        store: Store,
        registry: Registry,
        clock: Clock,
        metrics: Metrics,
        authorizer: Authorizer | None = None,
        routes: Mapping[Resource, Routes] | None = None,
    ) -> None:
        self.config = config
        self.store = store
        store.identity = Identity(registry.get)
        self.registry = registry
        #: The kinds that have handlers instead of the generic ones, by group and plural.
        self.routes = dict(routes or {})
        self.clock = clock
        self.metrics = metrics
        self.features = config.features
        #: Whether requests and answers may be in CBOR.
        self.cbor = config.features.enabled(cbor.GATE)
        self.streams: set[WatchStream] = set()
        #: Background tasks that end when the server stops, such as watches of a past moment and checks after
        #: faults.
        self.silent: set[asyncio.Future[None]] = set()
        self.timeline = Timeline(store)
        self.offload = Offload()
        #: The policies and webhooks that are registered.
        self.dynamic: Dynamic = NoDynamic()
        self.tokens = Tokens(Keys(config.keys), config.tokens, self.lookup, clock.now)
        self.credentials = Credentials(
            self.tokens,
            config.known_tokens,
            required=not config.anonymous_auth,
            checked=bool(config.authorizes) or config.client_certificates,
            anonymous=ANONYMOUS if config.client_certificates else ADMINISTRATOR,
        )
        #: The authorizer; None if every request is allowed.
        self.authorizer = authorizer
        self.stopping = False
        self._moment = (datetime.min.replace(tzinfo=UTC), "")
        self._presenter = functools.lru_cache(maxsize=4096)(self._make_presenter)

    def end_watches(self) -> int:
        """End all watches before their timeout. Return their number."""
        streams = list(self.streams)
        for stream in streams:
            stream.stop()
        return len(streams)

    def now(self) -> str:
        """Return the current time in the format of objects."""
        moment = self.clock.now().replace(microsecond=0)
        if moment != self._moment[0]:
            self._moment = (moment, rfc3339(moment))
        return self._moment[1]

    def _make_presenter(self, kind: Kind, version: str, accepted: Accepted, include_object: str) -> Presenter:
        return Presenter(kind, version, accepted, include_object, self.clock)

    def presenter(self, target: Target, request: Request, *, streaming: bool = False) -> Presenter:
        """Return the presenter for the representation of the target's kind that the client accepts.

        Raises:
            StatusError: 406, the server has no such representation.
        """
        listing = not target.name and request.method == "GET"
        accept = request.header(b"accept")
        packed = MEDIA_TYPE in accept and self._packs(target, request)
        # Over a WebSocket, events are JSON texts, never CBOR.
        binary = self.cbor and not (streaming and b"upgrade" in request.headers)
        custom = (
            target.kind.unstructured
            and not target.kind.types.has_messages
            and b"upgrade" not in request.headers
        )
        accepted = negotiate(accept, listing, streaming, packed, binary, custom)
        if accepted.transform == "PartialObjectMetadata":
            if request.method == "GET" and not streaming and accepted.listed != listing:
                raise other_metadata(target.kind, listing)
            # Both forms share one presenter, and with it the cache of encoded objects.
            accepted = accepted._replace(listed=False)
        include = request.query.get("includeObject", "") if accepted.transform == "Table" else ""
        return self._presenter(target.kind, target.version, accepted, include)

    def _packs(self, target: Target, request: Request) -> bool:
        """True if the target's kind has a protobuf form. Over a WebSocket, each event is a JSON message."""
        return bool(message_name(target.kind, target.version)) and b"upgrade" not in request.headers

    def lookup(self, group: str, plural: str, namespace: str, name: str) -> JsonObject | None:
        """Return the newest version of an object, even if it is not written to the database yet."""
        record = self.store.newest((group, plural), object_key(namespace, name))
        return None if record is None else record.object()

    def listing(self, group: str, plural: str, namespace: str) -> list[bytes]:
        """Return the newest version of each object in a namespace (all if ""), even if not yet in the database."""
        prefix = f"{namespace}/" if namespace else ""
        return [record.data for record in self.store.newest_in((group, plural), prefix)]

    def runner(self, target: Target, size: int = 0) -> Run | None:
        """Return a function that runs the computation of a write in a thread; None if the computation is short.

        It may be long because of the write's `size` in bytes or the kind's rules, or because it waits for
        webhooks.
        """
        seen = self.store.newest(target.resource, target.key) if target.name else None
        long = is_long(self, target, size if seen is None else max(size, len(seen.data)))
        waits = target.kind.persistence is not None and target.kind.persistence.waits
        return self.offload.run if long or waits or self.dynamic.calls(target.resource) else None

    def write(
        self,
        target: Target,
        change: ChangeFunction,
        dry_run: bool,
        run: Run | None,
        confirm: Confirm | None = None,
    ) -> Awaitable[Record | None]:
        """Write like the store's `write`. With `run`, the change may be called more than once.

        Raises:
            StatusError: the change is rejected.
        """
        resource, key = target.resource, target.key
        if target.kind.persistence is not None:
            change = persist(target.kind.persistence, change)
        if run is None:
            return self.store.write(resource, key, change, dry_run)
        return guaranteed_update(self.store, resource, key, change, run, dry_run=dry_run, confirm=confirm)

    async def one(self, presenter: Presenter, record: Record) -> bytes:
        """Return the response body for a request for one object."""
        if presenter.waits:
            await presenter.prepare([record.data], fresh=True)
        elif presenter.quick or len(record.data) <= MUCH:
            return presenter.one(record.data)
        return await self.offload.run(functools.partial(presenter.one, record.data))

    def chain(
        self,
        request: Request,
        target: Target,
        options: Callable[[], JsonObject] | None = None,
        named: bool = True,
    ) -> Chain:
        """Return the admission chain of the request.

        `options` are those of a delete. `named` is false for a request about many objects, such as a
        deletecollection.
        """
        return Chain(self.dynamic.of(request, target, options, named))

    async def admit(
        self, request: Request, target: Target, obj: JsonObject, ctx: Context, operation: str
    ) -> None:
        """Run policies and webhooks for a request whose object is not stored, such as a Binding or an exec.

        Raises:
            StatusError: the request is denied.
        """
        work = functools.partial(self.judge, request, target, obj, None, ctx, operation)
        if self.dynamic.calls(target.resource):
            await self.offload.run(work)
        else:
            work()

    def judge(
        self,
        request: Request,
        target: Target,
        obj: JsonObject,
        old: JsonObject | None,
        ctx: Context,
        operation: str,
    ) -> None:
        """Do the same as `admit` in a thread that may wait for webhooks.

        Raises:
            StatusError: the request is denied.
        """
        registered = self.dynamic.of(request, target)
        if registered.mutate(obj, old, ctx, operation):
            registered.mutate(obj, old, ctx, operation, again=True)
        registered.validate(obj, old, ctx, operation)

    def context(self, target: Target, user: UserInfo, dry_run: bool = False, verb: str = "update") -> Context:
        """Return the context of the request for strategies."""
        return Context(
            kind=target.kind,
            version=target.version,
            namespace=target.namespace,
            now=self.now(),
            features=self.features,
            lookup=self.lookup,
            listing=self.listing,
            subresource=target.subresource,
            user=user,
            dry_run=dry_run,
            disabled_plugins=self.config.disabled_plugins,
            authorize=self._authorize(user, target),
            verb=verb,
        )

    def _authorize(self, user: UserInfo, target: Target) -> Authorize:
        if self.authorizer is None:
            return allow
        return functools.partial(_refusal, self.authorizer, user, target.kind.group)


def _refusal(
    authorizer: Authorizer, user: UserInfo, group: str, verb: str, resource: str, namespace: str, name: str
) -> str | None:
    plural, _, subresource = resource.partition("/")
    decision = authorizer.authorize(Attributes(user, verb, group, plural, subresource, namespace, name))
    return None if decision.allowed else decision.reason
