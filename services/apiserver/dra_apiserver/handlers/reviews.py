"""Who somebody is and what they may do: tokens of service accounts, and the kinds that are answered, not stored."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from dra_shared.clock import rfc3339

from dra_apiserver.auth import UserInfo
from dra_apiserver.errors import (
    GroupResource,
    StatusError,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    no_such_resource,
    not_found,
    quote,
)
from dra_apiserver.handlers.access import review_access, review_rules
from dra_apiserver.handlers.api import Api, Target
from dra_apiserver.handlers.options import write_options
from dra_apiserver.handlers.subresources import read_body, reply
from dra_apiserver.http import Request
from dra_apiserver.tokens import ISSUER

JsonObject = dict[str, Any]

_SHORTEST_TOKEN = 600
_TOKEN = GroupResource("authentication.k8s.io", "TokenRequest")
# What a token may be bound to.
_BINDABLE = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}


async def token(api: Api, request: Request, target: Target) -> None:
    """A token for a service account, perhaps bound to a pod, a node or a secret."""
    options = write_options(request, "CreateOptions")
    wanted = await read_body(api, request, _TOKEN.group, "v1", _TOKEN.plural, options)
    account = api.lookup("", "serviceaccounts", target.namespace, target.name)
    if account is None:
        raise not_found(target.qualified, target.name)
    uid = account["metadata"]["uid"]
    meta = {"name": target.name, "namespace": target.namespace, "uid": uid, "creationTimestamp": api.now()}
    found = wanted["metadata"]
    for field in ("name", "namespace"):
        if found.get(field) and found[field] != meta[field]:
            text = f"must match the service account {field} if specified"
            problem = invalid(f"metadata.{field}", found[field], text)
            raise invalid_object(*_TOKEN, target.name, [problem])
    if found.get("uid") and found["uid"] != uid:
        text = f"the UID in the token request ({found['uid']}) does not match the UID of the service account ({uid})"
        raise conflict(_TOKEN, target.name, text)
    spec = wanted.get("spec") or {}
    audiences = spec.get("audiences") or [ISSUER]
    seconds = spec.get("expirationSeconds") or 3600
    if not isinstance(seconds, int):
        raise bad_request("TokenRequest: spec.expirationSeconds must be a number")
    if seconds < _SHORTEST_TOKEN:
        problem = invalid(
            "spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
        )
        raise invalid_object(*_TOKEN, "", [problem])
    wanted["metadata"] = meta
    wanted["spec"] = {**spec, "audiences": audiences, "expirationSeconds": seconds}
    if api.dynamic is not None:
        ctx = api.context(target, request.user, options.dry_run)
        await api.dynamic.admit(request, target, wanted, ctx, "CREATE")
        spec = wanted["spec"]
        audiences, seconds = spec["audiences"], spec["expirationSeconds"]
    bound = _bound_objects(api, target, spec.get("boundObjectRef"))
    due = rfc3339(api.clock.now() + timedelta(seconds=seconds))
    issued = api.tokens.issue(account, seconds, audiences, bound)
    wanted["status"] = {"token": issued, "expirationTimestamp": due}
    await reply(request, 201, wanted)


def _bound_objects(api: Api, target: Target, reference: JsonObject | None) -> dict[str, JsonObject]:
    """What a token holds as long as; a pod's node is named with it."""
    if reference is None:
        return {}
    name, kind = reference.get("name") or "", reference.get("kind") or ""
    group, _, version = (reference.get("apiVersion") or "").rpartition("/")
    if group or kind not in _BINDABLE:
        shown = f"{group}/{version}, Kind={kind}"
        raise bad_request(f"cannot bind token to object of type {shown}")
    plural = _BINDABLE[kind]
    found = api.lookup("", plural, "" if kind == "Node" else target.namespace, name)
    if found is None:
        raise not_found(GroupResource("", plural), name)
    bound = {kind.lower(): found}
    if kind == "Pod":
        spec = found.get("spec") or {}
        if spec.get("serviceAccountName") != target.name:
            raise bad_request(
                f"cannot bind token for serviceaccount {quote(target.name)} to pod running with different "
                "serviceaccount name."
            )
        if spec.get("nodeName"):
            node = api.lookup("", "nodes", "", spec["nodeName"])
            bound["node"] = node or {"metadata": {"name": spec["nodeName"]}}
    uid = reference.get("uid")
    if uid and uid != found["metadata"]["uid"]:
        text = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise conflict(GroupResource("", kind), name, text)
    return bound


async def review(api: Api, request: Request, target: Target) -> None:
    """Kinds that are answered and not stored: who am I, may I."""
    options = write_options(request, "CreateOptions")
    kind = target.kind
    obj = await read_body(api, request, kind.group, target.version, kind.kind, options)
    user = _shown_user(request.user)
    if target.namespace:
        obj["metadata"]["namespace"] = target.namespace
    match kind.kind:
        case "SelfSubjectReview":
            obj["status"] = {"userInfo": user}
        case "TokenReview":
            obj["status"] = _reviewed(api, request, obj)
        case "SelfSubjectRulesReview":
            obj |= {"status": review_rules(api, request, obj), "spec": {}}
        case "SelfSubjectAccessReview" | "SubjectAccessReview" | "LocalSubjectAccessReview":
            obj["status"] = review_access(api, request, target, obj)
        case _:
            raise no_such_resource()
    await reply(request, 201, obj)


def _shown_user(user: UserInfo) -> JsonObject:
    shown: JsonObject = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {key: value for key, value in shown.items() if value}


def _reviewed(api: Api, request: Request, obj: JsonObject) -> JsonObject:
    """Whose token it is; one that is not this server's is the caller's."""
    spec = obj.get("spec") or {}
    try:
        user = api.tokens.user(spec.get("token") or "")
    except StatusError:
        return {"user": {}, "error": "[invalid bearer token, service account token has been invalidated]"}
    return {
        "authenticated": True,
        "user": _shown_user(user or request.user),
        **({"audiences": spec["audiences"]} if spec.get("audiences") else {}),
    }
