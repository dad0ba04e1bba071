"""Review access: of the requesting user, of another user, and all rules of a user (pkg/registry/authorization)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.api import Api
from dra_apiserver.authorization import Attributes
from dra_apiserver.errors import FieldError, bad_request, invalid, invalid_object
from dra_apiserver.handlers.bodies import read_review, reply
from dra_apiserver.http import Request
from dra_apiserver.kinds.authorization.selectors import check_selectors, selected_fields
from dra_apiserver.kinds.rbac.authorizer import join_problems, not_found_messages
from dra_apiserver.target import Target
from dra_apiserver.user import UserInfo

_ALL: list[JsonObject] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]


def review_access(api: Api, request: Request, target: Target, obj: JsonObject) -> JsonObject:
    """Return the status of a SelfSubjectAccessReview, a SubjectAccessReview or a LocalSubjectAccessReview.

    Raises:
        StatusError: 422, the review is invalid.
    """
    kind = target.kind
    spec = obj.get("spec") or {}
    if errors := _validate(kind.kind, spec, obj["metadata"], target.namespace):
        # Upstream's object has no kind any more at this point, so the error has none.
        raise invalid_object(kind.group, "", "", errors)
    if api.authorizer is None:
        return {"allowed": True, "reason": "every caller is an administrator"}
    user = request.user if kind.kind.startswith("Self") else _subject(spec)
    question, ignored = _question(spec, user)
    decision = api.authorizer.authorize(question)
    more = {"reason": decision.reason, "evaluationError": "; ".join(ignored)}
    return {"allowed": decision.allowed, **{field: text for field, text in more.items() if text}}


def _validate(kind: str, spec: JsonObject, meta: JsonObject, home: str) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if path is not None:
        path = {"Path": path.get("path") or "", "Verb": path.get("verb") or ""}
    errors = []
    if resource is not None and path is not None:
        text = "cannot be specified in combination with resourceAttributes"
        errors.append(invalid("spec.nonResourceAttributes", path, text))
    if resource is None and path is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(invalid("spec.resourceAttributes", None, text))
    if not kind.startswith("Self") and not spec.get("user") and not spec.get("groups"):
        text = "at least one of user or group must be specified"
        errors.append(invalid("spec.user", spec.get("user") or "", text))
    errors += check_selectors(resource or {})
    named = {field: value for field, value in meta.items() if value and field != "managedFields"}
    if home:
        named.pop("namespace", None)
    if named:
        text = "must be empty except for namespace" if home else "must be empty"
        errors.append(invalid("metadata", meta, text))
    if kind == "LocalSubjectAccessReview":
        namespace = (resource or {}).get("namespace") or ""
        if resource is not None and namespace != home:
            text = "must match metadata.namespace"
            errors.append(invalid("spec.resourceAttributes.namespace", namespace, text))
        if path is not None:
            text = "disallowed on this kind of request"
            errors.append(invalid("spec.nonResourceAttributes", path, text))
    return errors


def _subject(spec: JsonObject) -> UserInfo:
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    groups = tuple(spec.get("groups") or ())
    return UserInfo(spec.get("user") or "", groups, extra, uid=spec.get("uid") or "")


def _question(spec: JsonObject, user: UserInfo) -> tuple[Attributes, list[str]]:
    """Return the reviewed action, and the errors of selectors, which are ignored if they are invalid."""
    wanted = spec.get("resourceAttributes")
    if wanted is None:
        wanted = spec["nonResourceAttributes"]
        return Attributes(user, wanted.get("verb") or "", path=wanted.get("path") or ""), []
    verb, group, resource, subresource, namespace, name = (
        wanted.get(field) or "" for field in ("verb", "group", "resource", "subresource", "namespace", "name")
    )
    fields, ignored = selected_fields(wanted)
    return Attributes(user, verb, group, resource, subresource, namespace, name, fields=fields), ignored


def review_rules(api: Api, request: Request, obj: JsonObject) -> JsonObject:
    """Return the status of a SelfSubjectRulesReview.

    Raises:
        StatusError: 400, it names no namespace.
    """
    namespace = (obj.get("spec") or {}).get("namespace") or ""
    if not namespace:
        raise bad_request("no namespace on request")
    rules: list[JsonObject] = _ALL
    absent: list[JsonObject] = []
    unlisted = ""
    if api.authorizer is not None:
        rules, absent = api.authorizer.rules_of(request.user, namespace)
        unlisted = api.authorizer.explain_unlisted(request.user)
    status: JsonObject = {
        "resourceRules": [
            _select_fields(rule, "verbs", "apiGroups", "resources", "resourceNames")
            for rule in rules
            if rule.get("resources")
        ],
        "nonResourceRules": [
            _select_fields(rule, "verbs", "nonResourceURLs") for rule in rules if rule.get("nonResourceURLs")
        ],
        "incomplete": bool(unlisted),
    }
    problem = join_problems([*filter(None, [unlisted]), *not_found_messages(absent)])
    return status | ({"evaluationError": problem} if problem else {})


def _select_fields(rule: JsonObject, *fields: str) -> JsonObject:
    return {field: rule[field] for field in fields if rule.get(field)}


async def review(api: Api, request: Request, target: Target) -> None:
    """Respond to a SelfSubjectAccessReview, a SubjectAccessReview or a LocalSubjectAccessReview."""
    obj = await read_review(api, request, target)
    obj["status"] = review_access(api, request, target, obj)
    await reply(request, 201, obj)


async def review_own_rules(api: Api, request: Request, target: Target) -> None:
    """Respond to a SelfSubjectRulesReview."""
    obj = await read_review(api, request, target)
    await reply(request, 201, obj | {"status": review_rules(api, request, obj), "spec": {}})
