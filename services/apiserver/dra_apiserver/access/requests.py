"""Authorize a request by its path and method only, so that even a request for an unknown resource is authorized first.

Mirrors apiserver's RequestInfoFactory and its filters for impersonation and authorization.
"""

from __future__ import annotations

from dataclasses import replace

from dra_shared.fieldselectors import parse_field_selector
from dra_shared.names import path_segment_name
from dra_shared.selectors import SelectorError

from dra_apiserver.access.impersonation import Impersonation
from dra_apiserver.authentication import add_implied_groups
from dra_apiserver.authorization.attributes import Attributes, refusal
from dra_apiserver.authorization.authorizer import Authorizer
from dra_apiserver.http import Request
from dra_apiserver.user import UserInfo

_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
# Without a path below it, the history endpoint only returns revisions and times.
_ALWAYS_ALLOWED = frozenset({"/healthz", "/livez", "/readyz", "/history"})
# Path prefixes that stand for a verb, such as /api/v1/watch/….
_PREFIXES = frozenset({"proxy", "watch"})
_OF_NAMESPACES = frozenset({"status", "finalize"})


class RequestAuthorizer:
    """Authorizes requests."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._impersonation = Impersonation(authorizer)

    def check(self, request: Request, wanted: UserInfo | None) -> None:
        """Authorize a request, as the user ``wanted`` if it impersonates one.

        The request's user is then set to that user.

        Raises:
            StatusError: 403, it is forbidden.
        """
        action = attributes_of(request)
        if wanted is not None:
            request.user = add_implied_groups(self._impersonation.check(action, wanted))
            action = replace(action, user=request.user)
        if action.path in _ALWAYS_ALLOWED:
            return
        decision = self._authorizer.authorize(action)
        if request.audit is not None:
            request.audit.record_decision(decision)
        if not decision.allowed:
            raise refusal(action, decision.reason)


def attributes_of(request: Request) -> Attributes:
    """Return the attributes of the request for the authorizer."""
    parts = request.path.strip("/").split("/")
    wanted = 3 if parts[0] == "api" else 4 if parts[0] == "apis" else len(parts) + 1
    if len(parts) < wanted:
        return Attributes(request.user, request.method.lower(), path=request.path)
    group, rest = (parts[1], parts[3:]) if parts[0] == "apis" else ("", parts[2:])
    verb = _VERBS.get(request.method, "")
    if rest[0] in _PREFIXES and len(rest) > 1:
        verb, rest = rest[0], rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 and verb != "proxy" else ""
    fields: tuple[tuple[str, str], ...] = ()
    if not name and verb in ("get", "delete"):
        fields = _selected_fields(request.query.get("fieldSelector", ""))
        if verb == "delete":
            verb = "deletecollection"
        else:
            verb = "watch" if request.flag("watch") else "list"
            name = next((value for field, value in fields if field == "metadata.name"), "")
            name = "" if path_segment_name(name) else name
    return Attributes(request.user, verb, group, rest[0], subresource, namespace, name, fields=fields)


def _selected_fields(selector: str) -> tuple[tuple[str, str], ...]:
    """Return the fields that a field selector restricts to a single value, with that value."""
    if not selector:
        return ()
    try:
        terms = parse_field_selector(selector).terms
    except SelectorError:
        return ()
    return tuple((term.field, term.value) for term in terms if term.equal)
