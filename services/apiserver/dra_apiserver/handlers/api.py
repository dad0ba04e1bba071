"""What every handler works with."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dra_shared.clock import Clock, rfc3339

from dra_apiserver.auth import UserInfo
from dra_apiserver.authorization import RBAC, Attributes
from dra_apiserver.config import Config
from dra_apiserver.errors import GroupResource
from dra_apiserver.http import Request
from dra_apiserver.metrics import Metrics
from dra_apiserver.present import Accepted, Presenter, negotiate
from dra_apiserver.registry import KindInfo, Registry
from dra_apiserver.storage import Resource, Store, object_key
from dra_apiserver.strategy import Context
from dra_apiserver.tokens import Tokens
from dra_apiserver.watch import WatchStream

if TYPE_CHECKING:
    from dra_apiserver.admission.dynamic.registered import Admission, Dynamic

JsonObject = dict[str, Any]


@dataclass(slots=True)
class Target:
    """What a path names: a kind in a version, perhaps a namespace, an object and a subresource."""

    kind: KindInfo
    version: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> Resource:
        """Where the store keeps the kind."""
        return self.kind.storage

    @property
    def key(self) -> str:
        """The object's key in the store."""
        return object_key(self.namespace, self.name)

    @property
    def qualified(self) -> GroupResource:
        """The resource as errors name it."""
        return GroupResource(self.kind.group, self.kind.plural)


class Api:
    """The store, the registry and what else a request needs; one for the server's life."""

    def __init__(
        self, config: Config, store: Store, registry: Registry, clock: Clock, metrics: Metrics
    ) -> None:
        self.config = config
        self.store = store
        self.registry = registry
        self.clock = clock
        self.metrics = metrics
        self.features = config.features
        self.streams: set[WatchStream] = set()
        #: What policies and webhooks are registered; None while there are none.
        self.dynamic: Dynamic | None = None
        self.tokens = Tokens(config.database.with_name("service-account.key"), self.lookup, clock.now)
        #: Who may do what; None while everybody may do everything.
        self.rbac = RBAC(store) if config.authorization_mode == "RBAC" else None
        self.stopping = False
        self._moment = (datetime.min.replace(tzinfo=UTC), "")
        self._presenter = functools.lru_cache(maxsize=4096)(self._make_presenter)

    def now(self) -> str:
        """The time as objects carry it."""
        moment = self.clock.now().replace(microsecond=0)
        if moment != self._moment[0]:
            self._moment = (moment, rfc3339(moment))
        return self._moment[1]

    def _make_presenter(self, kind: int, version: str, accepted: Accepted, include_object: str) -> Presenter:
        return Presenter(self._kinds[kind], version, accepted, include_object, self.clock)

    @functools.cached_property
    def _kinds(self) -> dict[int, KindInfo]:
        return {}

    def presenter(self, target: Target, request: Request) -> Presenter:
        """How this client wants to see the target's kind.

        Raises:
            StatusError: 406, it wants what there isn't.
        """
        accepted = negotiate(request.header(b"accept"))
        include = request.query.get("includeObject", "") if accepted.transform == "Table" else ""
        kind = target.kind
        # KindInfo holds dicts, so it is known here by identity, and kept alive so that the identity stays its own.
        self._kinds.setdefault(id(kind), kind)
        return self._presenter(id(kind), target.version, accepted, include)

    def lookup(self, group: str, plural: str, namespace: str, name: str) -> JsonObject | None:
        """The newest version of an object, whether durable yet or not."""
        record = self.store.newest((group, plural), object_key(namespace, name))
        return None if record is None else record.object()

    def listing(self, group: str, plural: str, namespace: str) -> list[bytes]:
        """The newest version of every object in a namespace ("": in all), whether durable yet or not."""
        prefix = f"{namespace}/" if namespace else ""
        return [record.data for record in self.store.newest_in((group, plural), prefix)]

    def admission(
        self,
        request: Request,
        target: Target,
        options: Callable[[], JsonObject] | None = None,
        named: bool = True,
    ) -> Admission | None:
        """The policies and webhooks that may judge the request; None where there are none."""
        return None if self.dynamic is None else self.dynamic.of(request, target, options, named)

    def context(self, target: Target, user: UserInfo, dry_run: bool = False) -> Context:
        """The request as strategies see it."""
        made = Context(
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
        )
        if self.rbac is not None:
            made.authorize = functools.partial(_refusal, self.rbac, user, target.kind.group)
        return made


def _refusal(
    rbac: RBAC, user: UserInfo, group: str, verb: str, resource: str, namespace: str, name: str
) -> str | None:
    plural, _, subresource = resource.partition("/")
    decision = rbac.authorize(Attributes(user, verb, group, plural, subresource, namespace, name))
    return None if decision.allowed else decision.reason
