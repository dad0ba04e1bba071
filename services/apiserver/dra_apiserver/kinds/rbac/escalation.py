"""Prevent privilege escalation: users can only grant permissions that they have (rbac's policybased)."""

from __future__ import annotations

from collections.abc import Iterable

from dra_shared.jsontypes import JsonObject

from dra_apiserver.authorization.attributes import Attributes
from dra_apiserver.authorization.authorizer import PRIVILEGED, Authorizer
from dra_apiserver.authorization.rules import find_uncovered, format_rule
from dra_apiserver.errors import GroupResource, StatusError, forbidden_error, not_found, quote
from dra_apiserver.kinds.rbac.authorizer import GROUP, problems
from dra_apiserver.schema import same
from dra_apiserver.user import UserInfo

_KINDS = {
    "clusterrolebindings": "ClusterRoleBinding",
    "clusterroles": "ClusterRole",
    "rolebindings": "RoleBinding",
    "roles": "Role",
}
_EVERYTHING: tuple[JsonObject, ...] = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)
# Fields that the garbage collector changes.
_OF_NO_CONSEQUENCE = frozenset({"ownerReferences", "finalizers", "managedFields"})


def check_escalation(
    authorizer: Authorizer,
    user: UserInfo,
    plural: str,
    namespace: str,
    named: str,
    obj: JsonObject,
    old: JsonObject | None,
) -> None:
    """Check that a role or binding grants nothing that the user lacks, unless the user may `escalate` or `bind`.

    ``named`` is the name in the request's path.

    Raises:
        StatusError: 403, it grants more; 404, it grants a role that does not exist.
    """
    if PRIVILEGED in user.groups or (old is not None and _is_same(plural, obj, old)):
        return
    name = obj["metadata"].get("name") or ""
    if plural in ("roles", "clusterroles"):
        # As upstream, use the name in the request's path.
        escalate = Attributes(user, "escalate", GROUP, plural, "", namespace, named)
        if not authorizer.authorize(escalate).allowed:
            _check_role(authorizer, user, plural, namespace, name, obj, old)
        return
    reference = obj.get("roleRef") or {}
    role = {"Role": "roles", "ClusterRole": "clusterroles"}.get(reference.get("kind") or "")
    if role is None:
        # An invalid reference is reported by validation.
        return
    group, wanted = reference.get("apiGroup") or "", reference.get("name") or ""
    if authorizer.authorize(Attributes(user, "bind", group, role, "", namespace, wanted)).allowed:
        return
    resource, rules = GroupResource(GROUP, plural), authorizer.role_rules(reference, namespace)
    if rules is None:
        raise not_found(resource, wanted)
    _check_rules(authorizer, user, resource, namespace, name, rules)


def _check_role(
    authorizer: Authorizer,
    user: UserInfo,
    plural: str,
    namespace: str,
    name: str,
    obj: JsonObject,
    old: JsonObject | None,
) -> None:
    resource = GroupResource(GROUP, plural)
    _check_rules(authorizer, user, resource, namespace, name, obj.get("rules") or ())
    if any((one.get("aggregationRule") or {}).get("clusterRoleSelectors") for one in (obj, old or {})):
        try:
            _check_rules(authorizer, user, resource, namespace, name, _EVERYTHING)
        except StatusError:
            text = "must have cluster-admin privileges to use the aggregationRule"
            raise forbidden_error(resource, name, text) from None


def _check_rules(
    authorizer: Authorizer,
    user: UserInfo,
    resource: GroupResource,
    namespace: str,
    name: str,
    rules: Iterable[JsonObject],
) -> None:
    owned, absent = authorizer.rules_of(user, namespace)
    lacking = sorted({format_rule(rule) for rule in find_uncovered(owned, rules)})
    if not lacking:
        return
    groups = " ".join(map(quote, user.groups))
    text = (
        f"user {quote(user.name)} (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n"
        + "\n".join(lacking)
    )
    if absent:
        text += f"; resolution errors: [{problems(absent, resource)}]"
    raise forbidden_error(resource, name, text)


def _is_same(plural: str, obj: JsonObject, old: JsonObject) -> bool:
    return same(f"io.k8s.api.rbac.v1.{_KINDS[plural]}", _without(obj), _without(old))


def _without(obj: JsonObject) -> JsonObject:
    meta = {key: value for key, value in obj["metadata"].items() if key not in _OF_NO_CONSEQUENCE}
    return {**obj, "metadata": meta}
