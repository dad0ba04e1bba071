"""Authenticate a request by certificate or token, with impersonation, or as anonymous.

As upstream, a connection's certificate takes precedence over a request's token
(pkg/kubeapiserver/authenticator). On a server without authorization, an unknown token is ignored.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import unquote

from dra_shared.clientcertificate import ClientCertificate

from dra_apiserver.credentials import Credentials
from dra_apiserver.errors import StatusError, bad_request, quote
from dra_apiserver.http import CERTIFICATE, Request
from dra_apiserver.serviceaccount import InvalidToken, UnknownSignature
from dra_apiserver.user import UserInfo, service_account, service_account_groups

_USER, _GROUP, _UID = b"impersonate-user", b"impersonate-group", b"impersonate-uid"
_EXTRA = b"impersonate-extra-"
_CREDENTIALS = b"authorization"
_TELLING = frozenset({_CREDENTIALS, _USER, _GROUP, _UID})
_WITH_TOKEN = frozenset({_CREDENTIALS})
_AUTHENTICATED, _UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
_ANONYMOUS = "system:anonymous"


def identify(request: Request, credentials: Credentials) -> UserInfo | None:
    """Set the user of a request. Return the impersonated user that its headers name, or None.

    Raises:
        StatusError: 400, it impersonates a group without a user; 401, it lacks a required token, or the token
            is invalid.
    """
    certificate: ClientCertificate | None = request.scope.get(CERTIFICATE)
    certified = credentials.certificate_user(certificate) if certificate is not None else None
    if certified is None and not request.has_any(_TELLING):
        if credentials.required:
            raise _unauthorized_error()
        request.user = credentials.anonymous
        return None
    request.user = certified or credentials.anonymous
    if certified is None and (credentials.required or request.has_any(_WITH_TOKEN)):
        request.user = _holder(request, credentials) or request.user
    if request.header(_USER) or request.header(_GROUP) or request.header(_UID):
        return _impersonated_user(request.scope["headers"])
    return None


def _holder(request: Request, credentials: Credentials) -> UserInfo | None:
    # As upstream: words are separated by one space each, and those after the token are ignored.
    scheme, *words = request.header(_CREDENTIALS).strip().split(" ")
    token = words[0] if words and scheme.lower() == "bearer" else ""
    try:
        holder = credentials.holder(token) if token else None
    except UnknownSignature:
        holder = None
    except InvalidToken:
        raise _unauthorized_error() from None
    if holder is None and credentials.checked:
        raise _unauthorized_error()
    return holder and holder.user


def _unauthorized_error() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def _impersonated_user(headers: list[tuple[bytes, bytes]]) -> UserInfo | None:
    name, uid = "", ""
    groups: list[str] = []
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in headers:
        text = value.decode("latin-1")
        if header == _USER:
            name = name or text
        elif header == _GROUP:
            groups.append(text)
        elif header == _UID:
            uid = uid or text
        elif header.startswith(_EXTRA):
            key = unquote(header[len(_EXTRA) :].decode("latin-1").lower())
            extra[key] = (*extra.get(key, ()), text)
    if not name:
        _check_user_named(groups, extra, uid)
        return None
    return UserInfo(name, tuple(groups), extra, uid=uid)


def add_implied_groups(wanted: UserInfo) -> UserInfo:
    """Return the user with its implied groups (apiserver/pkg/endpoints/filters/impersonation)."""
    groups = list(wanted.groups)
    account = service_account(wanted.name)
    if not groups and account is not None:
        groups = list(service_account_groups(account[0]))
    if wanted.name == _ANONYMOUS:
        if _UNAUTHENTICATED not in groups:
            groups.append(_UNAUTHENTICATED)
    elif not {_AUTHENTICATED, _UNAUTHENTICATED} & set(groups):
        groups.append(_AUTHENTICATED)
    return replace(wanted, groups=tuple(groups))


def _check_user_named(groups: list[str], extra: dict[str, tuple[str, ...]], uid: str) -> None:
    if not (groups or extra or uid):
        return
    shown = f"[]string{{{', '.join(map(quote, groups))}}}" if groups else "[]string(nil)"
    more = ", ".join(f"{quote(key)}:[]string{{{', '.join(map(quote, extra[key]))}}}" for key in sorted(extra))
    others = f"map[string][]string{{{more}}}" if extra else "map[string][]string(nil)"
    user = f'&user.DefaultInfo{{Name:"", UID:{quote(uid)}, Groups:{shown}, Extra:{others}}}'
    raise bad_request(f"requested {user} without impersonating a user name")
