"""Audit policies: how much of which requests is logged (apiserver's pkg/audit/policy)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from dra_shared.yamltext import YamlError
from dra_shared.yamltext import load as load_yaml

from dra_apiserver.authorization.attributes import Attributes

STAGES = frozenset({"RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"})
_VERSION = "audit.k8s.io/v1"
_RULE = frozenset(
    {
        "level",
        "users",
        "userGroups",
        "verbs",
        "resources",
        "namespaces",
        "nonResourceURLs",
        "omitStages",
        "omitManagedFields",
    }
)


class Level(IntEnum):
    """How much of a request is logged; each level has what those before it have."""

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
    """What a policy says of one request."""

    level: Level = Level.NONE
    omitted: frozenset[str] = frozenset()
    omit_managed_fields: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """The first rule that fits decides; a request that none fits is not logged."""

    rules: Sequence[Mapping[str, Any]]
    omitted: frozenset[str] = frozenset()
    omit_managed_fields: bool = False

    def decide(self, wanted: Attributes) -> Decided:
        """How the request is logged."""
        for rule in self.rules:
            if _fits(rule, wanted):
                managed = rule.get("omitManagedFields")
                return Decided(
                    LEVELS[rule["level"]],
                    self.omitted | frozenset(rule.get("omitStages") or ()),
                    self.omit_managed_fields if managed is None else managed,
                )
        return Decided()


def load_policy(path: Path) -> Policy:
    """The policy in a file.

    Raises:
        OSError: it can't be read.
        ValueError: it is no policy.
    """
    try:
        document = load_yaml(path.read_bytes()).value
    except YamlError as error:
        raise ValueError(f"loading audit policy file: {path}: {error}") from error
    if not isinstance(document, dict) or (document.get("apiVersion"), document.get("kind")) != (
        _VERSION,
        "Policy",
    ):
        raise ValueError(f"loading audit policy file: {path} is no Policy of {_VERSION}")
    rules = document.get("rules")
    if not isinstance(rules, list) or not rules:
        raise ValueError(f"loading audit policy file: loaded illegal policy with 0 rules from file {path}")
    for number, rule in enumerate(rules):
        _check(rule, f"{path}: rules[{number}]")
    omitted = document.get("omitStages") or []
    _check_stages(omitted, f"{path}: omitStages")
    return Policy(rules, frozenset(omitted), bool(document.get("omitManagedFields")))


def _check(rule: Any, where: str) -> None:
    if not isinstance(rule, dict):
        raise ValueError(f"{where}: is no rule")
    if unknown := sorted(rule.keys() - _RULE):
        raise ValueError(f'{where}: unknown field "{unknown[0]}"')
    if rule.get("level") not in LEVELS:
        raise ValueError(f'{where}.level: Unsupported value: "{rule.get("level") or ""}"')
    if rule.get("nonResourceURLs") and (rule.get("resources") or rule.get("namespaces")):
        raise ValueError(
            f"{where}.nonResourceURLs: rules cannot apply to both regular resources and non-resource URLs"
        )
    _check_stages(rule.get("omitStages") or [], f"{where}.omitStages")


def _check_stages(stages: Sequence[str], where: str) -> None:
    for stage in stages:
        if stage not in STAGES:
            raise ValueError(
                f'{where}: Invalid value: "{stage}": allowed stages are {",".join(sorted(STAGES))}'
            )


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
    known = {wanted.combined, "*", f"{wanted.resource}/*"}
    if wanted.subresource:
        known.add(f"*/{wanted.subresource}")
    return not known.isdisjoint(resources)


def _leads_to(url: str, path: str) -> bool:
    return url in ("*", path) or (url.endswith("*") and path.startswith(url[:-1]))
