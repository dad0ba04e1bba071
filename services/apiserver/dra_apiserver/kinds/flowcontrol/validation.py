"""Validate flow schemas and priority levels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_label, dns_subdomain

from dra_apiserver.common.goshapes import Shape, show
from dra_apiserver.errors import (
    ErrorType,
    FieldError,
    Verbatim,
    forbidden_field,
    invalid,
    missing_field,
    not_supported,
)
from dra_apiserver.kinds.flowcontrol.bootstrap import flow_schemas, priority_levels

_LAST_PRECEDENCE = 10_000
_METHODS = ("ByNamespace", "ByUser")
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
# Each kind of subject has its own member. The others must be absent.
_SUBJECTS = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
_MOST_QUEUES = 10_000_000
_HASH_BITS = 60
_ALL = "*"
_PRESERVED_ZERO = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
_NOT_NEGATIVE = "must be a non-negative integer"
_PERCENT = "must be between 0 and 100, inclusive"

_NAMED: Shape = [("Name", "name", None, "")]
_SUBJECT: Shape = [
    ("Kind", "kind", None, ""),
    ("User", "user", _NAMED, "null"),
    ("Group", "group", _NAMED, "null"),
    ("ServiceAccount", "serviceAccount", [("Namespace", "namespace", None, ""), *_NAMED], "null"),
]
_RESOURCE_RULE: Shape = [
    ("Verbs", "verbs", None, "null"),
    ("APIGroups", "apiGroups", None, "null"),
    ("Resources", "resources", None, "null"),
    ("ClusterScope", "clusterScope", None, "false"),
    ("Namespaces", "namespaces", None, "null"),
]
_OTHER_RULE: Shape = [
    ("Verbs", "verbs", None, "null"),
    ("NonResourceURLs", "nonResourceURLs", None, "null"),
]
_RULE: Shape = [
    ("Subjects", "subjects", [_SUBJECT], "null"),
    ("ResourceRules", "resourceRules", [_RESOURCE_RULE], "null"),
    ("NonResourceRules", "nonResourceRules", [_OTHER_RULE], "null"),
]
_METHOD: Shape = [("Type", "type", None, "")]
_SCHEMA: Shape = [
    ("PriorityLevelConfiguration", "priorityLevelConfiguration", _NAMED, "struct"),
    ("MatchingPrecedence", "matchingPrecedence", None, "0"),
    ("DistinguisherMethod", "distinguisherMethod", _METHOD, "null"),
    ("Rules", "rules", [_RULE], "null"),
]
_QUEUING: Shape = [
    ("Queues", "queues", None, "0"),
    ("HandSize", "handSize", None, "0"),
    ("QueueLengthLimit", "queueLengthLimit", None, "0"),
]
_RESPONSE: Shape = [("Type", "type", None, ""), ("Queuing", "queuing", _QUEUING, "null")]
_LIMITED: Shape = [
    ("NominalConcurrencyShares", "nominalConcurrencyShares", None, "0"),
    ("LimitResponse", "limitResponse", _RESPONSE, "struct"),
    ("LendablePercent", "lendablePercent", None, "null"),
    ("BorrowingLimitPercent", "borrowingLimitPercent", None, "null"),
]
_EXEMPT: Shape = [
    ("NominalConcurrencyShares", "nominalConcurrencyShares", None, "null"),
    ("LendablePercent", "lendablePercent", None, "null"),
]
_LEVEL: Shape = [
    ("Type", "type", None, ""),
    ("Limited", "limited", _LIMITED, "null"),
    ("Exempt", "exempt", _EXEMPT, "null"),
]
_MANDATORY = ("exempt", "catch-all")


def _mandatory_specs(objects: Sequence[JsonObject]) -> Mapping[str, JsonObject]:
    named = {one["metadata"]["name"]: one["spec"] for one in objects}
    return {name: named[name] for name in _MANDATORY if name in named}


_SCHEMAS = _mandatory_specs(list(flow_schemas("")))
_LEVELS = _mandatory_specs(list(priority_levels()))


def check_flow_schema(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a flow schema. Mandatory schemas are immutable."""
    name, spec = obj["metadata"].get("name", ""), obj.get("spec") or {}
    errors = _check_schema(name, spec)
    if name in _SCHEMAS and spec != _SCHEMAS[name]:
        errors.append(invalid("spec", show(spec, _SCHEMA), f"spec of '{name}' must equal the fixed value"))
    return errors + check_conditions(obj, obj)


def _check_schema(name: str, spec: JsonObject, path: str = "spec") -> list[FieldError]:
    errors: list[FieldError] = []
    precedence, at = spec.get("matchingPrecedence", 0), f"{path}.matchingPrecedence"
    if precedence <= 0:
        errors.append(invalid(at, precedence, "must be a positive value"))
    if precedence > _LAST_PRECEDENCE:
        errors.append(invalid(at, precedence, f"must not be greater than {_LAST_PRECEDENCE}"))
    if precedence == 1 and name != "exempt":
        text = "only the schema named 'exempt' may have matchingPrecedence 1"
        errors.append(invalid(at, precedence, text))
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        errors.append(not_supported(f"{path}.distinguisherMethod.type", show(method, _METHOD), _METHODS))
    level, at = (spec.get("priorityLevelConfiguration") or {}).get("name", ""), "priorityLevelConfiguration"
    if level:
        errors += [invalid(f"{path}.{at}.name", level, text) for text in dns_subdomain(level)]
    else:
        errors.append(missing_field(f"{path}.{at}.name", "must reference a priority level"))
    for index, rule in enumerate(spec.get("rules") or ()):
        errors += _check_rule(rule, f"{path}.rules[{index}]")
    return errors


def _check_rule(rule: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not rule.get("subjects"):
        errors.append(missing_field(f"{path}.subjects", "subjects must contain at least one value"))
    for index, subject in enumerate(rule.get("subjects") or ()):
        errors += _check_subject(subject, f"{path}.subjects[{index}]")
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        text = "at least one of resourceRules and nonResourceRules has to be non-empty"
        errors.append(missing_field(path, text))
    for index, one in enumerate(rule.get("resourceRules") or ()):
        errors += _check_resource_rule(one, f"{path}.resourceRules[{index}]")
    for index, one in enumerate(rule.get("nonResourceRules") or ()):
        errors += _check_other_rule(one, f"{path}.nonResourceRules[{index}]")
    return errors


def _check_subject(subject: JsonObject, path: str) -> list[FieldError]:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        return [not_supported(f"{path}.kind", kind, sorted(_SUBJECTS))]
    member = _SUBJECTS[kind]
    found, at = subject.get(member), f"{path}.{member}"
    errors: list[FieldError] = []
    if found is None:
        errors.append(missing_field(at, f"{member} is required when subject kind is '{kind}'"))
    else:
        name = found.get("name", "")
        if not name:
            errors.append(missing_field(f"{at}.name"))
        elif kind == "ServiceAccount" and name != _ALL:
            errors += [invalid(f"{at}.name", name, text) for text in dns_subdomain(name)]
        if kind == "ServiceAccount":
            namespace = found.get("namespace", "")
            if namespace:
                errors += [invalid(f"{at}.namespace", namespace, text) for text in dns_label(namespace)]
            else:
                errors.append(missing_field(f"{at}.namespace", "must specify namespace for service account"))
    for other, name in _SUBJECTS.items():
        if other != kind and subject.get(name) is not None:
            text = f"{name} is forbidden when subject kind is not '{other}'"
            errors.append(forbidden_field(f"{path}.{name}", text))
    return errors


def _check_verbs(verbs: list[str], path: str) -> list[FieldError]:
    if not verbs:
        return [missing_field(path, "verbs must contain at least one value")]
    if _ALL in verbs:
        return _alone(verbs, path, "verbs")
    if not set(verbs).issubset(_VERBS):
        return [not_supported(path, show(verbs), _VERBS)]
    return []


def _alone(values: list[str], path: str, word: str) -> list[FieldError]:
    """Return the error of a list that has `*` and other values."""
    if len(values) > 1 and _ALL in values:
        return [invalid(path, show(values), f"if '*' is present, must not specify other {word}")]
    return []


def _check_resource_rule(rule: JsonObject, path: str) -> list[FieldError]:
    errors = _check_verbs(rule.get("verbs") or [], f"{path}.verbs")
    for field, one, word in (
        ("apiGroups", "api group", "api groups"),
        ("resources", "resource", "resources"),
    ):
        values = rule.get(field) or []
        if values:
            errors += _alone(values, f"{path}.{field}", word)
        else:
            errors.append(missing_field(f"{path}.{field}", f"resource rules must supply at least one {one}"))
    namespaces, at = rule.get("namespaces") or [], f"{path}.namespaces"
    if not namespaces and not rule.get("clusterScope"):
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        errors.append(missing_field(at, text))
    elif _ALL in namespaces:
        errors += _alone(namespaces, at, "namespaces")
    else:
        text = "each member of this list must be '*' or a DNS-1123 label; "
        for index, one in enumerate(namespaces):
            errors += [invalid(f"{at}[{index}]", one, text + why) for why in dns_label(one)]
    return errors


def _check_other_rule(rule: JsonObject, path: str) -> list[FieldError]:
    errors = _check_verbs(rule.get("verbs") or [], f"{path}.verbs")
    urls, at = rule.get("nonResourceURLs") or [], f"{path}.nonResourceURLs"
    if not urls:
        errors.append(missing_field(at, "nonResourceURLs must contain at least one value"))
    elif _ALL in urls:
        errors += _alone(urls, at, "non-resource URLs")
    else:
        for index, url in enumerate(urls):
            if problem := _url_problem(url):
                errors.append(invalid(f"{at}[{index}]", url, problem))
    return errors


def _url_problem(url: str) -> str:
    if not url:
        return "must not be empty"
    if url == "/":
        return ""
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    stars = url.count(_ALL)
    return "wildcard can only do suffix matching" if stars > 1 or (stars and not url.endswith("/*")) else ""


def check_priority_level(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a priority level."""
    meta, spec = obj["metadata"], obj.get("spec") or {}
    name = meta.get("name", "")
    errors: list[FieldError] = []
    if _PRESERVED_ZERO in (meta.get("annotations") or {}):
        errors.append(forbidden_field("metadata.annotations", f"annotation '{_PRESERVED_ZERO}' is forbidden"))
    errors += _check_level(name, spec)
    fixed = _LEVELS.get(name)
    if fixed is not None and name == "exempt":
        if {**spec, "exempt": fixed["exempt"]} != fixed:
            text = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"
            errors.append(invalid("spec", show(spec, _LEVEL), text))
    elif fixed is not None and spec != fixed:
        errors.append(invalid("spec", show(spec, _LEVEL), f"spec of '{name}' must equal the fixed value"))
    return errors + check_conditions(obj, obj)


def _check_level(name: str, spec: JsonObject, path: str = "spec") -> list[FieldError]:
    errors: list[FieldError] = []
    kind, limited, exempt = spec.get("type", ""), spec.get("limited"), spec.get("exempt")
    if (name == "exempt") != (kind == "Exempt"):
        shown = Verbatim(show(kind))
        errors.append(invalid(f"{path}.type", shown, "must be 'Exempt' if and only if `name` is 'exempt'"))
    if kind == "Exempt":
        if limited is not None:
            errors.append(forbidden_field(f"{path}.limited", "must be nil if the type is not Limited"))
        if exempt is not None:
            errors += _check_shares(exempt, f"{path}.exempt") + _check_lendable(exempt, f"{path}.exempt")
    elif kind == "Limited":
        if exempt is not None:
            errors.append(forbidden_field(f"{path}.exempt", "must be nil if the type is Limited"))
        if limited is None:
            errors.append(missing_field(f"{path}.limited", "must not be empty when type is Limited"))
        else:
            errors += _check_limited(limited, f"{path}.limited")
    else:
        errors.append(not_supported(f"{path}.type", kind, ("Exempt", "Limited")))
    return errors


def _check_shares(level: JsonObject, path: str) -> list[FieldError]:
    shares = level.get("nominalConcurrencyShares") or 0
    return [invalid(f"{path}.nominalConcurrencyShares", shares, _NOT_NEGATIVE)] if shares < 0 else []


def _check_lendable(level: JsonObject, path: str) -> list[FieldError]:
    percent = level.get("lendablePercent") or 0
    return [] if 0 <= percent <= 100 else [invalid(f"{path}.lendablePercent", percent, _PERCENT)]


def _check_limited(limited: JsonObject, path: str) -> list[FieldError]:
    errors = _check_shares(limited, path)
    response, at = limited.get("limitResponse") or {}, f"{path}.limitResponse"
    kind, queuing = response.get("type", ""), response.get("queuing")
    if kind == "Reject":
        if queuing is not None:
            text = "must be nil if limited.limitResponse.type is not Limited"
            errors.append(forbidden_field(f"{at}.queuing", text))
    elif kind != "Queue":
        errors.append(not_supported(f"{at}.type", kind, ("Queue", "Reject")))
    elif queuing is None:
        text = "must not be empty if limited.limitResponse.type is Limited"
        errors.append(missing_field(f"{at}.queuing", text))
    else:
        errors += _check_queuing(queuing, f"{at}.queuing")
    errors += _check_lendable(limited, path)
    borrowed = limited.get("borrowingLimitPercent") or 0
    if borrowed < 0:
        text = f"if specified, {_NOT_NEGATIVE}"
        errors.append(invalid(f"{path}.borrowingLimitPercent", borrowed, text))
    return errors


def _check_queuing(queuing: JsonObject, path: str) -> list[FieldError]:
    queues, hand, length = (queuing.get(name, 0) for name in ("queues", "handSize", "queueLengthLimit"))
    errors: list[FieldError] = []
    if length <= 0:
        errors.append(invalid(f"{path}.queueLengthLimit", length, "must be positive"))
    if queues <= 0:
        errors.append(invalid(f"{path}.queues", queues, "must be positive"))
    elif queues > _MOST_QUEUES:
        errors.append(invalid(f"{path}.queues", queues, f"must not be greater than {_MOST_QUEUES}"))
    problem = ""
    if hand <= 0:
        problem = "must be positive"
    elif hand > queues:
        problem = f"should not be greater than queues ({queues})"
    elif math.ceil(math.log2(queues) * hand) > _HASH_BITS:
        problem = (
            f"required entropy bits of deckSize {queues} and handSize {hand} "
            f"should not be greater than {_HASH_BITS}"
        )
    return [*errors, invalid(f"{path}.handSize", hand, problem)] if problem else errors


def check_conditions(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate the conditions of either kind's status: each has a type, and no type occurs twice."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        at, kind = f"status.conditions[{index}].type", condition.get("type", "")
        if kind in seen:
            errors.append(FieldError(ErrorType.DUPLICATE, at, kind))
        seen.add(kind)
        if not kind:
            errors.append(missing_field(at))
    return errors
