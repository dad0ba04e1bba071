"""Match requests with policies, bindings and webhooks (plugin/policy/matching, webhook/predicates)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.selectors import LabelSelector, SelectorError, label_selector

from dra_apiserver.errors import GroupResource, StatusError, internal, not_found
from dra_apiserver.kinds.admissionregistration.dynamic.attributes import Attributes, Place

_NAMESPACES = GroupResource("", "namespaces")


def matched_place(match: JsonObject, attributes: Attributes) -> Place | None:
    """Return the resource under which the request matches, or None.

    Raises:
        StatusError: a selector is invalid, or the namespace does not exist.
    """
    problem: StatusError | None = None
    for matches in (_namespace_matches, _object_matches):
        try:
            if not matches(match, attributes):
                return None
        except StatusError as error:
            # Only a request that the rules match gets this error.
            problem = problem or error
    policy = match.get("matchPolicy")
    if rules_match(match.get("excludeResourceRules") or (), policy, attributes) is not None:
        return None
    rules = match.get("resourceRules") or ()
    place = rules_match(rules, policy, attributes) if rules else attributes.places[0]
    if place is not None and problem is not None:
        raise problem
    return place


def rules_match(rules: Sequence[JsonObject], policy: str | None, attributes: Attributes) -> Place | None:
    """Return the resource under which one of the rules matches the request, or None."""
    own, *others = attributes.places
    for rule in rules:
        if rule_matches(rule, own, attributes) and _name_matches(rule, attributes):
            return own
    if policy != "Equivalent":
        return None
    for rule in rules:
        for place in others:
            if rule_matches(rule, place, attributes) and _name_matches(rule, attributes):
                return place
    return None


def _name_matches(rule: JsonObject, attributes: Attributes) -> bool:
    names = rule.get("resourceNames")
    return not names or attributes.name in names


def rule_matches(rule: JsonObject, place: Place, attributes: Attributes) -> bool:
    """True if the rule matches scope, operation, group, version and resource."""
    return (
        _scope_matches(rule.get("scope"), attributes)
        and _among(rule.get("operations"), attributes.operation)
        and covers(rule, place, attributes.target.subresource)
    )


def covers(rule: JsonObject, place: Place, subresource: str) -> bool:
    """True if the rule matches group, version and resource."""
    if not (_among(rule.get("apiGroups"), place.group) and _among(rule.get("apiVersions"), place.version)):
        return False
    for pattern in rule.get("resources") or ():
        resource, _, part = pattern.partition("/")
        if resource in ("*", place.resource) and part in ("*", subresource):
            return True
    return False


def _among(allowed: Sequence[str] | None, value: str) -> bool:
    return any(one in ("*", value) for one in allowed or ())


def _scope_matches(scope: str | None, attributes: Attributes) -> bool:
    if scope in (None, "*"):
        return True
    clusterwide = attributes.is_namespace or not attributes.namespace
    return clusterwide == (scope == "Cluster")


def _parse_selector(selector: Any) -> LabelSelector:
    try:
        return label_selector(selector)
    except SelectorError as error:
        raise internal(str(error)) from None


def _namespace_matches(match: JsonObject, attributes: Attributes) -> bool:
    if not attributes.namespace and not attributes.is_namespace:
        return True
    chosen = match.get("namespaceSelector")
    selector = _parse_selector(chosen)
    if chosen == {}:
        return True
    changing = attributes.operation in ("CREATE", "UPDATE") and not attributes.target.subresource
    if attributes.is_namespace and changing:
        namespace = attributes.obj
    else:
        namespace = attributes.ctx.lookup("", "namespaces", "", attributes.namespace)
    if namespace is None:
        raise not_found(_NAMESPACES, attributes.namespace)
    return selector.matches(namespace["metadata"].get("labels") or {})


def _object_matches(match: JsonObject, attributes: Attributes) -> bool:
    chosen = match.get("objectSelector")
    selector = _parse_selector(chosen)
    if chosen == {}:
        return True
    return any(
        selector.matches((one.get("metadata") or {}).get("labels") or {})
        for one in (attributes.obj, attributes.old)
        if one is not None
    )
