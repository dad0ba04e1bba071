"""Defaults of policies, bindings and webhooks (upstream's `pkg/apis/admissionregistration/v1/defaults.go`)."""

from __future__ import annotations

from typing import Any

from dra_shared.jsontypes import JsonObject


def _match_rules(rules: Any) -> None:
    for rule in rules or ():
        rule.setdefault("scope", "*")


def _match_resources(match: JsonObject | None) -> None:
    if match is None:
        return
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    _match_rules(match.get("resourceRules"))
    _match_rules(match.get("excludeResourceRules"))


def webhooks(obj: JsonObject, _version: str, _now: str) -> None:
    for webhook in obj.get("webhooks") or ():
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        if obj.get("kind") == "MutatingWebhookConfiguration":
            webhook.setdefault("reinvocationPolicy", "Never")
        _match_rules(webhook.get("rules"))
        service = (webhook.get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)


def admission_policy(obj: JsonObject, _version: str, _now: str) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    _match_resources(spec.get("matchConstraints"))


def admission_binding(obj: JsonObject, _version: str, _now: str) -> None:
    _match_resources((obj.get("spec") or {}).get("matchResources"))
