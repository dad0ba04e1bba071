"""Match PolicyRules with actions, and compare rules (component-helpers' auth/rbac/validation)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from dra_shared.jsontypes import JsonObject

from dra_apiserver.authorization.attributes import Attributes
from dra_apiserver.errors import quote

_SHOWN = {
    "apiGroups": "APIGroups",
    "resources": "Resources",
    "nonResourceURLs": "NonResourceURLs",
    "resourceNames": "ResourceNames",
    "verbs": "Verbs",
}


def allows(rule: JsonObject, wanted: Attributes) -> bool:
    """True if the rule allows the action."""
    if not _has(rule, "verbs", wanted.verb):
        return False
    if wanted.path is not None:
        return any(_leads_to(url, wanted.path) for url in _values(rule, "nonResourceURLs"))
    names = _values(rule, "resourceNames")
    return (
        _has(rule, "apiGroups", wanted.group)
        and any(_is_of(resource, wanted) for resource in _values(rule, "resources"))
        and (not names or wanted.name in names)
    )


def _values(rule: JsonObject, field: str) -> Sequence[str]:
    return rule.get(field) or ()


def _has(rule: JsonObject, field: str, value: str) -> bool:
    values = _values(rule, field)
    return "*" in values or value in values


def _is_of(resource: str, wanted: Attributes) -> bool:
    any_of_it = f"*/{wanted.subresource}" if wanted.subresource else "*"
    return resource in ("*", wanted.combined_resource, any_of_it)


def _leads_to(url: str, path: str) -> bool:
    return url in ("*", path) or (url.endswith("*") and path.startswith(url.rstrip("*")))


def find_uncovered(owned: Sequence[JsonObject], given: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the parts of the rules ``given`` that no rule ``owned`` covers. Parts of one resource are joined."""
    uncovered = [
        part for rule in given for part in _parts(rule) if not any(_covers(owner, part) for owner in owned)
    ]
    compact: list[JsonObject] = []
    by_resource: dict[tuple[str, ...], JsonObject] = {}
    for part in uncovered:
        if "nonResourceURLs" in part:
            compact.append(part)
            continue
        place = (*part["apiGroups"], *part["resources"], *part.get("resourceNames", ()))
        known = by_resource.setdefault(place, {**part, "verbs": []})
        known["verbs"] = [*known["verbs"], *part["verbs"]]
    return [*compact, *by_resource.values()]


def _parts(rule: JsonObject) -> Iterator[JsonObject]:
    """Split the rule into rules of one verb on one resource or path."""
    names = _values(rule, "resourceNames")
    for group, resource, verb in product(
        *(_values(rule, one) for one in ("apiGroups", "resources", "verbs"))
    ):
        part = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        yield from ({**part, "resourceNames": [name]} for name in names) if names else (part,)
    for url, verb in product(_values(rule, "nonResourceURLs"), _values(rule, "verbs")):
        yield {"nonResourceURLs": [url], "verbs": [verb]}


def _covers(owner: JsonObject, part: JsonObject) -> bool:
    if not _has(owner, "verbs", part["verbs"][0]):
        return False
    if "nonResourceURLs" in part:
        (path,) = part["nonResourceURLs"]
        urls = _values(owner, "nonResourceURLs")
        return any(url == path or (url.endswith("*") and path.startswith(url.rstrip("*"))) for url in urls)
    (resource,) = part["resources"]
    _, slash, subresource = resource.partition("/")
    names = _values(owner, "resourceNames")
    return (
        _has(owner, "apiGroups", part["apiGroups"][0])
        and (
            _has(owner, "resources", resource)
            or (bool(slash) and f"*/{subresource}" in _values(owner, "resources"))
        )
        and (not names or (bool(part.get("resourceNames")) and part["resourceNames"][0] in names))
    )


def format_rule(rule: JsonObject) -> str:
    """Format the rule for a message, as upstream does."""
    parts = (
        f"{name}:[{' '.join(map(quote, rule[field]))}]" for field, name in _SHOWN.items() if rule.get(field)
    )
    return f"{{{', '.join(parts)}}}"
