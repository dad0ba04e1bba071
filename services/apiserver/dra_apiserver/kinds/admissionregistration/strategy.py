"""The strategies of policies, their bindings and webhook configurations (`pkg/registry/admissionregistration`)."""

from __future__ import annotations

from collections.abc import Iterator

from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36

from dra_apiserver.common.checked import CheckedStrategy
from dra_apiserver.errors import FieldError, invalid
from dra_apiserver.kindkit.strategy import Context

_MANIFESTS = "ManifestBasedAdmissionControlConfig"
_SUFFIX = ".static.k8s.io"
_RESERVED = (
    f'names ending with "{_SUFFIX}" are reserved for static manifest-based configurations and cannot be managed '
    "via the API"
)
EXCLUDES_REVIEWS = "ExcludeAdmissionWebhookVirtualResources"
REVIEWS = frozenset(
    {
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    }
)
"""Kinds that no policy is asked about, and since 1.37 no webhook (`pkg/kubeapiserver/admission/exclusion`)."""


class RegisteredStrategy(CheckedStrategy):
    """The strategy of all kinds.

    Names with the reserved suffix belong to configuration files that a server reads when it starts.
    """

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, then the kind's own rules, then that the name has no reserved suffix."""
        errors = super().validate_create(obj, ctx)
        if ctx.features.enabled(_MANIFESTS) and _is_reserved(obj):
            errors = [*errors, invalid("metadata.name", obj["metadata"]["name"], _RESERVED)]
        return errors

    def warnings_on_create(self, obj: JsonObject, ctx: Context) -> list[str]:
        """Warn about a reserved name suffix and rules without effect."""
        reserved = not ctx.features.enabled(_MANIFESTS) and _warns_of_name(obj, ctx)
        own = [f"metadata.name: {_RESERVED}"] if reserved else []
        return [*own, *_warn_of_rules(obj, ctx), *super().warnings_on_create(obj, ctx)]

    def warnings_on_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[str]:
        """Warn about a reserved name suffix and rules without effect."""
        own = [f"metadata.name: {_RESERVED}"] if _warns_of_name(obj, ctx) else []
        return [*own, *_warn_of_rules(obj, ctx), *super().warnings_on_update(obj, old, ctx)]


def _is_reserved(obj: JsonObject) -> bool:
    return str(obj["metadata"].get("name", "")).endswith(_SUFFIX)


def _warns_of_name(obj: JsonObject, ctx: Context) -> bool:
    return ctx.features.version >= V1_36 and _is_reserved(obj)


def _warn_of_rules(obj: JsonObject, ctx: Context) -> Iterator[str]:
    """Yield a warning for each resource in a webhook's rules for which webhooks are never called."""
    if not ctx.features.enabled(EXCLUDES_REVIEWS):
        return
    for index, webhook in enumerate(obj.get("webhooks") or ()):
        for place, rule in enumerate(webhook.get("rules") or ()):
            groups, resources = rule.get("apiGroups") or [], rule.get("resources") or []
            if "*" in groups or "*" in resources:
                continue
            named = dict.fromkeys((group, resource) for group in groups for resource in resources)
            for group, resource in named:
                if (group, resource) in REVIEWS:
                    yield (
                        f"webhooks[{index}].rules[{place}]: {resource}.{group} is excluded from admission webhooks; "
                        "this rule will have no effect"
                    )
