"""Dispatch a reader's requests: plain reads use its copy of the objects, and all others go to the writer."""

from __future__ import annotations

from dra_apiserver.api import Api
from dra_apiserver.app import Application
from dra_apiserver.errors import StatusError
from dra_apiserver.handlers.get import get, list_objects, watch
from dra_apiserver.handlers.routes import NotResource, resolve
from dra_apiserver.http import Receive, Request, Scope, Send
from dra_apiserver.relay import Relay

_READS = (get, list_objects, watch)
# Each server answers these about itself.
_OWN = frozenset({"livez", "readyz", "healthz", "metrics"})


class Reads:
    """Selects the server that handles a request."""

    def __init__(self, api: Api, application: Application, relay: Relay) -> None:
        self._api, self._application, self._relay = api, application, relay

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        answers = self._application if self._is_read(scope) else self._relay.pass_on
        await answers(scope, receive, send)

    def _is_read(self, scope: Scope) -> bool:
        if scope["type"] != "http":
            return True
        path: str = scope["path"]
        if path.strip("/").partition("/")[0] in _OWN:
            return True
        if scope["method"] != "GET":
            return False
        request = Request(scope, _nothing, _nowhere, "")
        # An exact list may need revisions that only the archive has.
        if scope["query_string"] and request.query.get("resourceVersionMatch") == "Exact":
            return False
        try:
            _, handler, _ = resolve(self._api.registry, self._api.routes, "GET", path, request.flag("watch"))
        except (NotResource, StatusError):
            return False
        return handler in _READS


async def _nothing() -> dict[str, object]:
    raise AssertionError


async def _nowhere(message: object) -> None:
    raise AssertionError
