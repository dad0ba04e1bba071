"""Validate webhook configurations (pkg/apis/admissionregistration/validation, apiserver's util/webhook)."""

from __future__ import annotations

from urllib.parse import urlsplit

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_1035_label, dns_subdomain

from dra_apiserver.common.labelselectors import check_label_selector
from dra_apiserver.common.lists import find_repeated
from dra_apiserver.errors import duplicate, invalid, missing_field
from dra_apiserver.kinds.admissionregistration.rules import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    Errors,
    among,
    check_conditions,
    check_rule,
)

_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_REVIEWS = ("v1", "v1beta1")
_URL_FORM = "; desired format: https://host[/path]"


def check_webhooks(obj: JsonObject, old: JsonObject | None) -> Errors:
    """Validate the webhooks of a configuration."""
    errors: Errors = []
    webhooks, before = obj.get("webhooks") or [], (old or {}).get("webhooks") or []
    conditions = [[one.get("matchConditions") for one in some] for some in (webhooks, before)]
    kept = old is not None and conditions[0] == conditions[1]
    seen: set[str] = set()
    for index, webhook in enumerate(webhooks):
        at, name = f"webhooks[{index}]", webhook.get("name") or ""
        errors += _check_webhook(webhook, at, kept)
        errors += check_reviews(webhook.get("admissionReviewVersions") or [], f"{at}.admissionReviewVersions")
        if name in seen:
            errors.append(duplicate(f"{at}.name", name))
        seen |= {name} - {""}
    return errors


def _check_name(name: str, path: str) -> Errors:
    if not name:
        return [missing_field(path)]
    if problems := dns_subdomain(name):
        return [invalid(path, name, ",".join(problems))]
    if name.count(".") < 2:
        return [invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def _check_webhook(webhook: JsonObject, path: str, kept: bool) -> Errors:
    errors = _check_name(webhook.get("name") or "", f"{path}.name")
    for index, rule in enumerate(webhook.get("rules") or ()):
        errors += check_rule(rule, f"{path}.rules[{index}]")
    errors += among(webhook.get("failurePolicy"), FAILURE_POLICIES, f"{path}.failurePolicy")
    errors += among(webhook.get("matchPolicy"), MATCH_POLICIES, f"{path}.matchPolicy")
    effects = webhook.get("sideEffects")
    if effects is None:
        errors.append(missing_field(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}"))
    errors += among(effects, _SIDE_EFFECTS, f"{path}.sideEffects")
    seconds = webhook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        errors.append(invalid(f"{path}.timeoutSeconds", seconds, text))
    for field in ("namespaceSelector", "objectSelector"):
        errors += check_label_selector(webhook.get(field), f"{path}.{field}")
    errors += among(webhook.get("reinvocationPolicy"), REINVOCATION_POLICIES, f"{path}.reinvocationPolicy")
    errors += check_client(webhook.get("clientConfig") or {}, f"{path}.clientConfig")
    if not kept:
        errors += check_conditions(webhook.get("matchConditions") or (), f"{path}.matchConditions", False)
    return errors


def check_reviews(versions: list[str], path: str) -> Errors:
    """Check that one of the review versions is supported."""
    accepted = ", ".join(_REVIEWS)
    if not versions:
        return [missing_field(path, f"must specify one of {accepted}")]
    errors: Errors = []
    again = find_repeated(versions)
    for index, version in enumerate(versions):
        if index in again:
            errors.append(invalid(f"{path}[{index}]", version, "duplicate version"))
            continue
        errors += [invalid(f"{path}[{index}]", version, text) for text in dns_1035_label(version)]
    if not set(versions) & set(_REVIEWS):
        errors.append(invalid(path, versions, f"must include at least one of {accepted}"))
    return errors


def check_client(config: JsonObject, path: str) -> Errors:
    """Check that the client configuration has either a URL or a service."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [missing_field(path, "exactly one of url or service is required")]
    if url is not None:
        return _check_url(url, f"{path}.url")
    assert service is not None
    return _check_service(service, f"{path}.service")


def _check_url(url: str, path: str) -> Errors:
    parts = urlsplit(url)
    errors: Errors = []
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, "'https' is the only allowed URL scheme" + _URL_FORM))
    user, at, host = parts.netloc.rpartition("@")
    if not host:
        errors.append(invalid(path, host, "host must be specified" + _URL_FORM))
    if at:
        errors.append(invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def _check_service(service: JsonObject, path: str) -> Errors:
    # Upstream reports the name for either field if it is missing.
    errors: Errors = [] if service.get("namespace") else [missing_field(f"{path}.name")]
    errors += [] if service.get("name") else [missing_field(f"{path}.namespace")]
    port = service.get("port") or 0
    if not 1 <= port <= 65535:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid(f"{path}.port", port, text))
    url, at = service.get("path"), f"{path}.path"
    if url in (None, "", "/"):
        return errors
    if url == "//":
        return [*errors, invalid(at, url, "segment[0] may not be empty")]
    if not url.startswith("/"):
        errors.append(invalid(at, url, "must start with a '/'"))
    for index, step in enumerate(url[1:].removesuffix("/").split("/")):
        problems = dns_subdomain(step) if step else ["may not be empty"]
        joint = ": " if step else " "
        errors += [invalid(at, url, f"segment[{index}]{joint}{text}") for text in problems]
    return errors
