"""The ASGI application: the fast dispatcher for Kubernetes clients. ``front`` has the FastAPI application."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import uuid
from collections import Counter
from time import perf_counter
from typing import Any

import orjson
from dra_shared.httpserver import report_end
from dra_shared.jsontext import TooDeep
from dra_shared.log import logger

from dra_apiserver.access.requests import RequestAuthorizer
from dra_apiserver.api import Api, Handler
from dra_apiserver.audit import Auditor
from dra_apiserver.authentication import add_implied_groups, identify
from dra_apiserver.errors import (
    GroupResource,
    StatusError,
    bad_request,
    forbidden_request,
    internal,
    method_not_allowed,
    no_such_resource,
    too_many_requests,
)
from dra_apiserver.faults import Faults
from dra_apiserver.front.paths import MOUNTED, PATHS
from dra_apiserver.handlers import faults, snapshots, views
from dra_apiserver.handlers.deprecations import deprecation
from dra_apiserver.handlers.documents import Documents
from dra_apiserver.handlers.faultregister import Register
from dra_apiserver.handlers.options import manager_of
from dra_apiserver.handlers.routes import NotResource, resolve
from dra_apiserver.health import Health
from dra_apiserver.http import Disconnected, Receive, Request, Scope, Send
from dra_apiserver.metrics import Labels, Sample
from dra_apiserver.patch import ApplyConflict, PatchError
from dra_apiserver.schema import DecodeError
from dra_apiserver.storage.authors import Author, set_author
from dra_apiserver.target import Target
from dra_apiserver.traffic import Traffic, Visit
from dra_apiserver.user import UserInfo

_FRONT = "dra_apiserver.front.application"
_METRIC_VERBS = {
    "get": "GET",
    "list": "LIST",
    "watch": "WATCH",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "apply": "APPLY",
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
}
_READS = frozenset({"get", "list"})
MAX_REQUESTS = 2000
MAX_WATCHES = 5000
_SLOW = 1.0
_LASTING = frozenset({"log", "exec", "attach", "portforward", "proxy"})
_HEALTH = frozenset({"livez", "readyz", "healthz"})
# Go's http.Error sends it with plain text.
_NO_SNIFFING = {"x-content-type-options": "nosniff"}

_log = logger(__name__)


def status_error(error: DecodeError | PatchError) -> StatusError:
    """Return the Status of a body or patch that was rejected."""
    if isinstance(error, ApplyConflict):
        return StatusError(error.code, error.reason, str(error), {"causes": error.causes})
    details: dict[str, Any] | None = {} if error.reason == "Invalid" else None
    if isinstance(error, DecodeError) and error.causes:
        details = {"causes": error.causes}
    return StatusError(error.code, error.reason, str(error), details)


def _labels(verb: str, target: Target, *more: str) -> Labels:
    named = target.name or verb == "create"
    scope = "resource" if named else "namespace" if target.namespace else "cluster"
    kind = target.kind
    return (
        _METRIC_VERBS.get(verb, "OPTIONS"),
        *more,
        kind.group,
        target.version,
        kind.plural,
        target.subresource,
        scope,
        "apiserver",
    )


def _author(verb: str, request: Request, target: Target) -> Author:
    # Read the headers here instead of in a function, because this code runs for each write.
    headers = request.headers
    if verb == "patch" and headers.get(b"content-type", b"").startswith(b"application/apply-patch"):
        verb = "apply"
    agent = headers.get(b"user-agent", b"").decode("latin-1")
    manager = request.query.get("fieldManager", "") if request.scope["query_string"] else ""
    manager = manager or manager_of(agent)
    return Author(request.user.name, agent, manager, verb, target.subresource)


def _sees_all(request: Request) -> bool:
    """True if a request must observe all earlier writes: it asks neither for a given revision nor for any (0)."""
    if request.method != "GET":
        return True
    if not request.path.startswith(("/api/", "/apis/")):
        return False
    # An empty value requests no revision, as upstream reads it.
    return not (request.scope["query_string"] and request.query.get("resourceVersion"))


def _visit(request: Request, verb: str) -> Visit:
    return Visit(
        user=request.user.name,
        agent=request.header(b"user-agent"),
        method=request.method,
        path=request.path,
        query=request.scope["query_string"].decode("latin-1"),
        verb=verb,
        code=request.code,
        warnings=tuple(request.warnings),
    )


def _warn(request: Request, warning: str) -> None:
    request.warn([warning])
    if request.audit is not None:
        request.audit.record_deprecation(warning)


class Application:
    """Responds to every request. No exception of a handler escapes it."""

    def __init__(
        self,
        api: Api,
        health: Health,
        access_log: bool = False,
        traffic: Traffic | None = None,
        auditor: Auditor | None = None,
    ) -> None:
        self._api = api
        self._auditor = auditor
        self._traffic = traffic
        self._health = health
        self._documents = Documents(api)
        self._authorizer = None if api.authorizer is None else RequestAuthorizer(api.authorizer)
        self._guard = api.config.guard
        self._access_log = access_log
        self._faults = Faults(api.clock, api.end_watches, self._hold_watches)
        self._register = Register(api, self._faults)
        self._ids = itertools.count(1)
        # Request IDs are UUIDs with a common prefix for the server. Only the last part is counted.
        self._prefix = str(uuid.uuid4())[:-12]
        self._pages: Any = None
        self._follows = api.store.follows
        self._running = 0
        self._mutating = 0
        self._longrunning: Counter[Labels] = Counter()
        api.metrics.gauge(
            "apiserver_current_inflight_requests",
            "Requests being answered, watches left out.",
            ("request_kind",),
            self._inflight,
        )
        api.metrics.gauge(
            "apiserver_longrunning_requests",
            "Watches that are open now.",
            ("verb", "group", "version", "resource", "subresource", "scope", "component"),
            lambda: [(labels, float(count)) for labels, count in self._longrunning.items()],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1003})
            return
        started = perf_counter()
        request = Request(scope, receive, send, f"{self._prefix}{next(self._ids):012x}")
        request.cbor = self._api.cbor
        verb, target = "", None
        self._running += 1
        try:
            views.enter(request)
            if self._follows and _sees_all(request) and not self._needs_no_database(request):
                await self._api.store.fresh()
            self._admit(request)
            watching = b"watch=" in scope["query_string"] and request.flag("watch")
            try:
                verb, handler, target = resolve(
                    self._api.registry, self._api.routes, request.method, request.path, watching
                )
            except NotResource:
                await self._other(request)
                return
            if verb == "watch":
                if len(self._api.streams) >= MAX_WATCHES:
                    raise too_many_requests("too many watches, please try again later")
            elif self._running - len(self._api.streams) > MAX_REQUESTS:
                raise too_many_requests("too many requests, please try again later")
            if self._faults.active or self._traffic is not None:
                await self._pass_traffic(request, verb, target)
            warning = deprecation(target.kind, target.version)
            if warning is not None:
                _warn(request, warning)
            await self._handle(verb, handler, request, target)
        except StatusError as error:
            await self._refuse(request, error)
        except (DecodeError, PatchError) as error:
            await self._refuse(request, status_error(error))
        except (RecursionError, TooDeep):
            await self._refuse(request, bad_request("exceeded max depth"))
        except Disconnected:
            request.code = request.code or 499
        except Exception as error:
            await self._fail(request, error)
        finally:
            self._running -= 1
            self._record(request, verb, target, request.code or 500, perf_counter() - started)

    def _needs_no_database(self, request: Request) -> bool:
        """True for discovery requests, whose response does not depend on the database, while that is unreachable."""
        if self._api.store.failure is None or request.method != "GET":
            return False
        api, *rest = request.path.strip("/").split("/")
        return len(rest) <= (1 if api == "api" else 2)

    def _admit(self, request: Request) -> None:
        """Authenticate and authorize the request.

        Raises:
            StatusError: 401, 403 or 405.
        """
        if (reason := self._guard.refusal(request.method, request.headers)) is not None:
            raise forbidden_request(reason)
        if request.method == "TRACE":
            raise method_not_allowed()
        wanted = self._identify(request)
        if self._authorizer is not None:
            self._authorizer.check(request, wanted)
        elif wanted is not None:
            request.user = add_implied_groups(wanted)

    async def _pass_traffic(self, request: Request, verb: str, target: Target) -> None:
        """Hold the request as long as an observer (``traffic``) wants, and apply the active faults to it.

        Raises:
            StatusError: the fault's response.
            Disconnected: the fault drops the request.
        """
        if self._traffic is not None:
            await self._traffic.arrive(_visit(request, verb))
        if self._faults.active:
            resource = GroupResource(target.kind.group, target.kind.plural)
            agent = request.header(b"user-agent")
            fate = await self._faults.meet(verb, resource, target.name or "", agent)
            if fate != "handled":
                request.lose_answer()
            if fate == "lost":
                raise Disconnected

    def _identify(self, request: Request) -> UserInfo | None:
        auditor = self._auditor
        if auditor is None:
            return identify(request, self._api.credentials)
        try:
            wanted = identify(request, self._api.credentials)
        except StatusError:
            auditor.begin(request, rejected=True)
            raise
        auditor.begin(request)
        return wanted

    async def _handle(self, verb: str, handler: Handler, request: Request, target: Target) -> None:
        if request.view is not None:
            handler = views.handler(self._api, request.view, verb, handler, target)
        if verb == "watch":
            labels = _labels(verb, target)
            self._longrunning[labels] += 1
            try:
                await handler(self._api, request, target)
            finally:
                self._longrunning[labels] -= 1
        elif verb in _READS:
            await handler(self._api, request, target)
        else:
            self._mutating += 1
            set_author(_author(verb, request, target))
            try:
                await self._api.dynamic.ready()
                await handler(self._api, request, target)
            finally:
                self._mutating -= 1

    def _inflight(self) -> list[Sample]:
        reading = self._running - self._mutating - self._longrunning.total()
        return [(("mutating",), float(self._mutating)), (("readOnly",), float(reading))]

    def _hold_watches(self, held: bool) -> int:
        streams = list(self._api.streams)
        for stream in streams:
            stream.hold(held)
        return len(streams)

    async def _refuse(self, request: Request, error: StatusError) -> None:
        if not request.code:
            await request.fail(error)
            return
        # Half of the response has been sent already, so the client sees a truncated stream.
        await request.stream(b"", more=False)

    async def _fail(self, request: Request, error: Exception) -> None:
        _log.exception(
            "request failed unexpectedly", request=request.id, method=request.method, path=request.path
        )
        if request.audit is not None:
            request.audit.record_failure(error)
        await self._refuse(request, internal(f"{type(error).__name__}: {error}"))

    def _record(self, request: Request, verb: str, target: Target | None, code: int, seconds: float) -> None:
        if request.audit is not None:
            request.code = code
            request.audit.complete()
        if self._traffic is not None:
            self._traffic.depart(_visit(request, verb))
        if target is not None:
            if verb == "patch" and request.header(b"content-type").startswith("application/apply-patch"):
                verb = "apply"
            dry_run = "All" if b"dryRun" in request.scope["query_string"] else ""
            labels = _labels(verb, target, dry_run)
            self._api.metrics.requests.add((*labels, str(code)))
            if verb != "watch":
                self._api.metrics.durations.observe(labels, seconds)
        lasting = verb == "watch" or (target is not None and target.subresource in _LASTING)
        slow = seconds > _SLOW and not lasting
        if self._access_log or code >= 500 or slow:
            _log.info(
                "request",
                request=request.id,
                method=request.method,
                path=request.path,
                query=request.scope["query_string"].decode("latin-1"),
                code=code,
                seconds=round(seconds, 6),
                agent=request.header(b"user-agent"),
            )

    async def _other(self, request: Request) -> None:
        parts = request.path.strip("/").split("/")
        if parts[0] in _HEALTH:
            excluded = [value for name, value in request.parameters if name == "exclude"]
            only = "/".join(parts[1:])
            code, text = self._health.answer(parts[0], request.query, excluded, only)
            await request.respond(code, text.encode(), "text/plain; charset=utf-8", _NO_SNIFFING)
        elif request.path == "/metrics":
            await request.respond(200, self._api.metrics.render(), "text/plain; version=0.0.4; charset=utf-8")
        elif request.path == views.HISTORY:
            await views.bounds(self._api, request)
        elif parts[0] == "faults" and len(parts) <= 2:
            await faults.answer(self._register, request)
        elif request.path == snapshots.PATH:
            await snapshots.answer(self._api, request)
        elif await self._documents.answer(request, parts):
            return
        elif parts[0] in PATHS and MOUNTED not in request.scope and request.view is None:
            if self._pages is None:
                try:
                    # The import takes half a second, in which other requests are served.
                    front = await asyncio.to_thread(importlib.import_module, _FRONT)
                except ModuleNotFoundError as error:
                    text = f"this page needs {error.name}: pip install 'dralab[console]'\n"
                    await request.respond(501, text.encode(), "text/plain; charset=utf-8")
                    return
                # Another request may have waited for the import too.
                self._pages = self._pages or front.build(self._api, self._health, self)

            async def note_status(message: Any) -> None:
                if message["type"] == "http.response.start":
                    request.code = message["status"]
                await request.send(message)

            await self._pages(request.scope, report_end(request.receive, request.has_ended), note_status)
        elif (parts[0] == "apis" and len(parts) > 2 and not self._api.registry.is_custom(parts[1])) or (
            parts[0] == "api" and len(parts) > 1
        ):
            raise no_such_resource()
        elif parts == [""]:
            await request.respond(200, orjson.dumps({"paths": self._documents.paths()}))
        else:
            await request.respond(404, b"404 page not found\n", "text/plain; charset=utf-8", _NO_SNIFFING)
