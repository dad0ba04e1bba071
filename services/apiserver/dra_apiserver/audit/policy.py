"""Audit policies: the requests that are logged, and the level of detail (apiserver's pkg/audit/policy)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from dra_apiserver.authorization.attributes import Attributes


class Level(IntEnum):
    """The level of detail. Each level includes the previous ones."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3


LEVELS = {
    "None": Level.NONE,
    "Metadata": Level.METADATA,
    "Request": Level.REQUEST,
    "RequestResponse": Level.REQUEST_RESPONSE,
}


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision of a policy about one request: the level, and the stages to omit."""

    level: Level = Level.NONE
    omitted: frozenset[str] = frozenset()
    omit_managed_fields: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """The first matching rule decides. A request that no rule matches is not logged.

    `unknown` are fields of its file that have no effect.
    """

    rules: Sequence[Mapping[str, Any]]
    omitted: frozenset[str] = frozenset()
    omit_managed_fields: bool = False
    unknown: tuple[str, ...] = ()

    def decide(self, wanted: Attributes) -> Decided:
        """Return how the request is logged."""
        for rule in self.rules:
            if _fits(rule, wanted):
                managed = rule.get("omitManagedFields")
                return Decided(
                    LEVELS[rule["level"]],
                    self.omitted | frozenset(rule.get("omitStages") or ()),
                    self.omit_managed_fields if managed is None else managed,
                )
        return Decided()


def _fits(rule: Mapping[str, Any], wanted: Attributes) -> bool:
    users, groups, verbs = rule.get("users"), rule.get("userGroups"), rule.get("verbs")
    if users and wanted.user.name not in users:
        return False
    if groups and not any(group in groups for group in wanted.user.groups):
        return False
    if verbs and wanted.verb not in verbs:
        return False
    namespaces, resources = rule.get("namespaces"), rule.get("resources")
    if namespaces or resources:
        return (
            wanted.path is None
            and (not namespaces or wanted.namespace in namespaces)
            and (not resources or any(_has(one, wanted) for one in resources))
        )
    if urls := rule.get("nonResourceURLs"):
        return wanted.path is not None and any(_leads_to(url, wanted.path) for url in urls)
    return True


def _has(group: Mapping[str, Any], wanted: Attributes) -> bool:
    if (group.get("group") or "") != wanted.group:
        return False
    resources, names = group.get("resources"), group.get("resourceNames")
    if not resources:
        return True
    if names and wanted.name not in names:
        return False
    known = {wanted.combined_resource, "*", f"{wanted.resource}/*"}
    if wanted.subresource:
        known.add(f"*/{wanted.subresource}")
    return not known.isdisjoint(resources)


def _leads_to(url: str, path: str) -> bool:
    return url in ("*", path) or (url.endswith("*") and path.startswith(url[:-1]))
