"""Load audit policies from files (apiserver's pkg/audit/policy/reader.go and pkg/apis/audit/validation)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dra_shared.boundedfiles import read_file
from dra_shared.names import dns_subdomain
from dra_shared.yamltext import YamlError
from dra_shared.yamltext import load as load_yaml

from dra_apiserver.audit.policy import LEVELS, Policy
from dra_apiserver.errors import FieldError, invalid, missing_field, not_supported

_STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")
_VERSION = "audit.k8s.io/v1"
_TEXTS = "a list of strings"
_POLICY = {
    "apiVersion": "a string",
    "kind": "a string",
    "metadata": "an object",
    "rules": "a list of objects",
    "omitStages": _TEXTS,
    "omitManagedFields": "a boolean",
}
_RULE = {
    "level": "a string",
    "users": _TEXTS,
    "userGroups": _TEXTS,
    "verbs": _TEXTS,
    "resources": "a list of objects",
    "namespaces": _TEXTS,
    "nonResourceURLs": _TEXTS,
    "omitStages": _TEXTS,
    "omitManagedFields": "a boolean",
}
_RESOURCES = {"group": "a string", "resources": _TEXTS, "resourceNames": _TEXTS}


def load_policy(path: Path) -> Policy:
    """Load the policy of a file. Like upstream, ignore its `unknown` fields.

    Raises:
        OSError: the file can't be read.
        ValueError: it is not a policy.
    """
    try:
        return _policy(load_yaml(read_file(path)).value)
    except (YamlError, ValueError) as error:
        raise ValueError(f"loading audit policy file: {error}: from file {path}") from error


def _policy(document: Any) -> Policy:
    if not isinstance(document, dict) or (document.get("apiVersion"), document.get("kind")) != (
        _VERSION,
        "Policy",
    ):
        raise ValueError(f"the file is not a Policy of {_VERSION}")
    unknown = [*_check_fields(document, _POLICY, "")]
    rules = document.get("rules") or []
    errors = _check_stages(document.get("omitStages") or (), "omitStages")
    for number, rule in enumerate(rules):
        at = f"rules[{number}]"
        unknown += _check_fields(rule, _RULE, f"{at}.")
        for index, one in enumerate(rule.get("resources") or ()):
            unknown += _check_fields(one, _RESOURCES, f"{at}.resources[{index}].")
        errors += _check(rule, at)
    if errors:
        texts = list(dict.fromkeys(map(str, errors)))
        raise ValueError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    if not rules:
        raise ValueError("loaded illegal policy with 0 rules")
    omitted = frozenset(document.get("omitStages") or ())
    return Policy(rules, omitted, bool(document.get("omitManagedFields")), tuple(unknown))


def _check_fields(obj: Mapping[str, Any], fields: Mapping[str, str], at: str) -> Iterator[str]:
    """Yield the unknown fields. Raises ValueError if a field has a value of a wrong type."""
    for name, value in obj.items():
        if name not in fields:
            yield f"{at}{name}"
        elif value is not None and not _is(value, fields[name]):
            raise ValueError(f"failed decoding: {at}{name} is not {fields[name]}")


def _is(value: Any, kind: str) -> bool:
    match kind:
        case "a string":
            return isinstance(value, str)
        case "a boolean":
            return isinstance(value, bool)
        case "an object":
            return isinstance(value, dict)
    item = str if kind == _TEXTS else dict
    return isinstance(value, list) and all(isinstance(one, item) for one in value)


def _check(rule: Mapping[str, Any], at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    level, urls = rule.get("level") or "", rule.get("nonResourceURLs") or []
    if not level:
        errors.append(missing_field(f"{at}.level"))
    elif level not in LEVELS:
        errors.append(not_supported(f"{at}.level", level, LEVELS))
    for index, url in enumerate(urls):
        where = f"{at}.nonResourceURLs[{index}]"
        if url != "*" and not url.startswith("/"):
            errors.append(invalid(where, url, "non-resource URL rules must begin with a '/' character"))
        if "*" in url[:-1]:
            text = "non-resource URL wildcards '*' must be the final character of the rule"
            errors.append(invalid(where, url, text))
    for one in rule.get("resources") or ():
        group, names = one.get("group") or "", one.get("resourceNames")
        if group and (problems := dns_subdomain(group)):
            errors.append(invalid(f"{at}.resources.group", group, ",".join(problems)))
        if names and not one.get("resources"):
            text = "using resourceNames requires at least one resource"
            errors.append(invalid(f"{at}.resources.resourceNames", names, text))
    errors += _check_stages(rule.get("omitStages") or (), f"{at}.omitStages")
    if urls and (rule.get("resources") or rule.get("namespaces")):
        text = "rules cannot apply to both regular resources and non-resource URLs"
        errors.append(invalid(f"{at}.nonResourceURLs", urls, text))
    return errors


def _check_stages(stages: Any, at: str) -> list[FieldError]:
    text = f"allowed stages are {','.join(_STAGES)}"
    return [
        invalid(f"{at}[{index}]", stage, text) for index, stage in enumerate(stages) if stage not in _STAGES
    ]
