"""The kinds of admissionregistration.k8s.io (upstream's `pkg/registry/admissionregistration`)."""

from __future__ import annotations

from dra_apiserver.common.builtin import STATUS_ALONE, builtin
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Validation, Writes
from dra_apiserver.kinds.admissionregistration import columns, defaults, policies, webhooks
from dra_apiserver.kinds.admissionregistration.strategy import RegisteredStrategy

KINDS = (
    builtin(
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicies",
        strategy=RegisteredStrategy(policies.check_mutating_policy),
        default=defaults.admission_policy,
        printer=printer("Name|Mutations#|ParamKind|Age", columns.admission_policy),
        writes=Writes(counts_generation=True, allow_unconditional_update=False),
        validation=Validation(core_metadata=False, has_expressions=True),
    ),
    builtin(
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings",
        strategy=RegisteredStrategy(policies.check_mutating_binding),
        default=defaults.admission_binding,
        printer=printer("Name|PolicyName|ParamRef|Age", columns.admission_binding),
        writes=Writes(counts_generation=True, allow_unconditional_update=False),
        validation=Validation(core_metadata=False),
    ),
    builtin(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        strategy=RegisteredStrategy(webhooks.check_webhooks),
        default=defaults.webhooks,
        printer=printer("Name|Webhooks#|Age", columns.webhooks),
        writes=Writes(counts_generation=True, allow_unconditional_update=False),
        validation=Validation(core_metadata=False, has_expressions=True),
    ),
    builtin(
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
        strategy=RegisteredStrategy(policies.check_validating_policy),
        default=defaults.admission_policy,
        printer=printer("Name|Validations#|ParamKind|Age", columns.admission_policy),
        writes=Writes(
            counts_generation=True, allow_unconditional_update=False, reset_fields={"status": STATUS_ALONE}
        ),
        validation=Validation(core_metadata=False, has_expressions=True),
    ),
    builtin(
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
        strategy=RegisteredStrategy(policies.check_validating_binding),
        default=defaults.admission_binding,
        printer=printer("Name|PolicyName|ParamRef|Age", columns.admission_binding),
        writes=Writes(counts_generation=True, allow_unconditional_update=False),
        validation=Validation(core_metadata=False),
    ),
    builtin(
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        strategy=RegisteredStrategy(webhooks.check_webhooks),
        default=defaults.webhooks,
        printer=printer("Name|Webhooks#|Age", columns.webhooks),
        writes=Writes(counts_generation=True, allow_unconditional_update=False),
        validation=Validation(core_metadata=False, has_expressions=True),
    ),
)
