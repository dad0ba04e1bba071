"""Issue tokens of service accounts (upstream's `pkg/registry/core/serviceaccount/storage/token.go`)."""

from __future__ import annotations

from datetime import timedelta

from dra_shared.clock import rfc3339
from dra_shared.jsontypes import JsonObject

from dra_apiserver.api import Api
from dra_apiserver.errors import (
    GroupResource,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    not_found,
    quote,
)
from dra_apiserver.handlers.bodies import read_body, reply
from dra_apiserver.handlers.options import write_options
from dra_apiserver.http import Request
from dra_apiserver.kinds.kubelets.restriction import restrict_token
from dra_apiserver.serviceaccount.tokens import ISSUED_CREDENTIAL_ID, credential_id
from dra_apiserver.target import Target

_SHORTEST_TOKEN = 600
_LONGEST_TOKEN = 1 << 32
_TOKEN = GroupResource("authentication.k8s.io", "TokenRequest")
# The kinds that a token may be bound to.
_BINDABLE = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}


async def token(api: Api, request: Request, target: Target) -> None:
    """Respond with a token for a service account, which may be bound to a pod, a node or a secret."""
    options = write_options(request, "CreateOptions")
    wanted = await read_body(api, request, _TOKEN.group, "v1", _TOKEN.plural, options)
    ctx = api.context(target, request.user, options.dry_run)
    # Checked before the default audience is set: the kubelet omits the audience if the pod's volume does.
    restrict_token(ctx, target.name, wanted)
    account = api.lookup("", "serviceaccounts", target.namespace, target.name)
    if account is None:
        raise not_found(target.qualified_resource, target.name)
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
    wanted["metadata"] = meta
    wanted["spec"] = _checked_spec(api, wanted)
    await api.admit(request, target, wanted, ctx, "CREATE")
    # Admission may have changed it.
    wanted["metadata"] = meta
    spec = wanted["spec"] = _checked_spec(api, wanted)
    audiences, seconds = spec["audiences"], api.tokens.limit_duration(spec["expirationSeconds"])
    if seconds < spec["expirationSeconds"]:
        text = f"requested expiration of {spec['expirationSeconds']} seconds shortened to {seconds} seconds"
        request.warn([text])
        spec["expirationSeconds"] = seconds
    bound = _bound_objects(api, target, spec.get("boundObjectRef"))
    due = rfc3339(api.clock.now() + timedelta(seconds=seconds))
    issued = api.tokens.issue(account, seconds, audiences, bound)
    if request.audit is not None:
        request.audit.annotate(ISSUED_CREDENTIAL_ID, credential_id(issued))
    wanted["status"] = {"token": issued, "expirationTimestamp": due}
    await reply(request, 201, wanted)


def _checked_spec(api: Api, wanted: JsonObject) -> JsonObject:
    """Return the spec with its defaults.

    Raises:
        StatusError: 400 or 422, it is invalid.
    """
    spec = wanted.get("spec") or {}
    audiences = spec.get("audiences") or [*api.tokens.audiences]
    seconds = spec.get("expirationSeconds") or 3600
    if not isinstance(seconds, int):
        raise bad_request("TokenRequest: spec.expirationSeconds must be a number")
    if seconds < _SHORTEST_TOKEN:
        problem = invalid(
            "spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
        )
        raise invalid_object(*_TOKEN, "", [problem])
    if seconds > _LONGEST_TOKEN:
        text = "may not specify a duration larger than 2^32 seconds"
        raise invalid_object(*_TOKEN, "", [invalid("spec.expirationSeconds", seconds, text)])
    return {**spec, "audiences": audiences, "expirationSeconds": seconds}


def _bound_objects(api: Api, target: Target, reference: JsonObject | None) -> dict[str, JsonObject]:
    """Return the objects that the token is bound to. A pod's node is included."""
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
