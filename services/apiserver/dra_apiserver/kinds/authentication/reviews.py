"""Review identities: TokenReview and SelfSubjectReview (upstream's `pkg/registry/authentication`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.api import Api
from dra_apiserver.errors import bad_request
from dra_apiserver.handlers.bodies import read_review, reply
from dra_apiserver.http import Request
from dra_apiserver.serviceaccount import InvalidToken
from dra_apiserver.target import Target
from dra_apiserver.user import UserInfo


async def review_self(api: Api, request: Request, target: Target) -> None:
    """Respond with the identity of the request's user."""
    await read_review(api, request, target)
    kind = target.kind
    document: JsonObject = {
        "kind": kind.kind,
        "apiVersion": kind.api_version(target.version),
        "metadata": {"creationTimestamp": api.now()},
        "status": {"userInfo": _shown_user(request.user)},
    }
    await reply(request, 201, document)


async def review_token(api: Api, request: Request, target: Target) -> None:
    """Respond with the identity of a token's user."""
    obj = await read_review(api, request, target)
    obj["status"] = _review_status(api, obj)
    await reply(request, 201, obj)


def _shown_user(user: UserInfo) -> JsonObject:
    shown: JsonObject = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {key: value for key, value in shown.items() if value}


def _review_status(api: Api, obj: JsonObject) -> JsonObject:
    """Return the user of a token, with the requested audiences that it is valid for (by default this server's).

    Raises:
        StatusError: 400, there is no token to review.
    """
    spec = obj.get("spec") or {}
    token = spec.get("token") or ""
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    try:
        holder = api.credentials.holder(token, spec.get("audiences") or ())
    except InvalidToken as error:
        return {"user": {}, "error": f"[invalid bearer token, {error}]"}
    if holder is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": _shown_user(holder.user), "audiences": list(holder.audiences)}
