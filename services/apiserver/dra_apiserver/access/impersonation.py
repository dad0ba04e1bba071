"""Authorize impersonation (apiserver/pkg/endpoints/filters/impersonation, with `ConstrainedImpersonation`).

Each mode that applies to the impersonated user is tried in turn. The constrained modes come first: they need
the verb `impersonate:MODE` on the user and `impersonate-on:MODE:VERB` on the action itself. The last mode
needs only the verb `impersonate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dra_shared.names import dns_subdomain

from dra_apiserver.authorization.attributes import Attributes, refusal
from dra_apiserver.authorization.authorizer import PRIVILEGED, Authorizer
from dra_apiserver.errors import StatusError
from dra_apiserver.user import UserInfo, service_account

_AUTHENTICATION = "authentication.k8s.io"
_NODE, _NODES = "system:node:", "system:nodes"
_NODE_NAME = f"{_AUTHENTICATION}/node-name"
_LEGACY = "impersonate"


class Impersonation:
    """Checks impersonation.

    As upstream, it caches the mode that last allowed each user. That mode is tried first, and if no mode allows
    the request, its error is returned.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._proven: dict[str, str] = {}

    def check(self, action: Attributes, wanted: UserInfo) -> UserInfo:
        """Let ``action.user`` act as ``wanted`` for this action. Return that user with the groups of the mode.

        Raises:
            StatusError: 403, no mode allows it. The error is that of the first mode that was tried.
        """
        refused: StatusError | None = None
        requestor = action.user.name
        proven = self._proven.get(requestor)
        for mode in sorted(_modes(action.user, wanted), key=lambda one: one != proven):
            try:
                if mode != _LEGACY:
                    kind = mode.partition(":")[2]
                    _check(self._authorizer, replace(action, verb=f"impersonate-on:{kind}:{action.verb}"))
                for one in _questions(action.user, wanted, mode):
                    _check(self._authorizer, one)
            except StatusError as error:
                refused = refused or error
                continue
            self._proven[requestor] = mode
            return replace(wanted, groups=(_NODES,)) if mode != _LEGACY and _node(wanted.name) else wanted
        assert refused is not None
        raise refused


def _check(authorizer: Authorizer, wanted: Attributes) -> None:
    decision = authorizer.authorize(wanted)
    if not decision.allowed:
        raise refusal(wanted, decision.reason)


def _modes(requestor: UserInfo, wanted: UserInfo) -> Iterator[str]:
    bare = not (wanted.uid or wanted.groups or wanted.extra)
    node, account = _node(wanted.name), service_account(wanted.name)
    if node and bare:
        if service_account(requestor.name) and requestor.extra.get(_NODE_NAME) == (node,):
            yield "impersonate:associated-node"
        yield "impersonate:arbitrary-node"
    elif account and bare:
        yield "impersonate:serviceaccount"
    elif not node and not account:
        yield "impersonate:user-info"
    yield _LEGACY


def _questions(requestor: UserInfo, wanted: UserInfo, mode: str) -> Iterator[Attributes]:
    """Yield the actions that the requesting user must be allowed to do, for each impersonated field."""
    group = "" if mode == _LEGACY else _AUTHENTICATION
    account, node = service_account(wanted.name), _node(wanted.name)
    if account:
        yield Attributes(requestor, mode, group, "serviceaccounts", "", *account)
    elif node and mode != _LEGACY:
        name = "*" if mode == "impersonate:associated-node" else node
        yield Attributes(requestor, mode, group, "nodes", name=name)
    else:
        yield Attributes(requestor, mode, group, "users", name=wanted.name)
    if wanted.uid:
        yield Attributes(requestor, mode, _AUTHENTICATION, "uids", name=wanted.uid)
    any_group = Attributes(requestor, mode, group, "groups")
    if mode != _LEGACY and "" in wanted.groups:
        raise refusal(any_group, "impersonating the empty string group is not allowed")
    if mode != _LEGACY and PRIVILEGED in wanted.groups:
        raise refusal(
            replace(any_group, name=PRIVILEGED), f"impersonating the {PRIVILEGED} group is not allowed"
        )
    for name in wanted.groups:
        yield replace(any_group, name=name)
    for key, values in wanted.extra.items():
        for value in values:
            yield Attributes(requestor, mode, _AUTHENTICATION, "userextras", key, name=value)


def _node(user: str) -> str:
    name = user.removeprefix(_NODE)
    return "" if name == user or dns_subdomain(name) else name
