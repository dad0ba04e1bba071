"""The strategy of the kinds that register policies and webhooks."""

from __future__ import annotations

from dra_apiserver.strategy.checked import CheckedStrategy
from dra_apiserver.validation import policies, webhooks

_CHECKS = {
    "mutatingadmissionpolicies": policies.check_mutating_policy,
    "mutatingadmissionpolicybindings": policies.check_mutating_binding,
    "mutatingwebhookconfigurations": webhooks.check_webhooks,
    "validatingadmissionpolicies": policies.check_validating_policy,
    "validatingadmissionpolicybindings": policies.check_validating_binding,
    "validatingwebhookconfigurations": webhooks.check_webhooks,
}


STRATEGIES = {
    ("admissionregistration.k8s.io", plural, ""): CheckedStrategy(check) for plural, check in _CHECKS.items()
}
