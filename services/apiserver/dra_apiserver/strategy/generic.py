"""The strategy of kinds without behaviour of their own."""

from __future__ import annotations

from typing import Any

import orjson
from dra_shared.names import (
    NameRule,
    dns_label_name,
    dns_subdomain,
    dns_subdomain_name,
    path_segment_name,
)

from dra_apiserver.equality import differs
from dra_apiserver.errors import FieldError
from dra_apiserver.schema import object_type, strip
from dra_apiserver.strategy import Context
from dra_apiserver.strategy.objectmeta import (
    validate_kube_finalizers,
    validate_metadata,
    validate_metadata_update,
)
from dra_apiserver.warnings import warnings_on_create, warnings_on_update

JsonObject = dict[str, Any]

# Kinds whose metadata.generation counts changes outside metadata and status.
_COUNTED = {
    ("", "pods"),
    ("", "podtemplates"),
    ("", "replicationcontrollers"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("discovery.k8s.io", "endpointslices"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "ingresses"),
    ("networking.k8s.io", "networkpolicies"),
    ("policy", "poddisruptionbudgets"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "devicetaintrules"),
    ("resource.k8s.io", "resourceslices"),
    ("scheduling.k8s.io", "priorityclasses"),
}


def _device_class_name(name: str, prefix: bool) -> list[str]:
    # Declared rather than handwritten upstream, where limits are told in bytes.
    checked = name[:-1] + "a" if prefix and len(name) > 1 and name.endswith("-") else name
    return dns_subdomain(checked, bytes_limit=True)


_NAME_RULES: dict[tuple[str, str], NameRule] = {
    ("", "namespaces"): dns_label_name,
    ("", "services"): dns_label_name,
    ("apps", "statefulsets"): dns_label_name,
    ("resource.k8s.io", "deviceclasses"): _device_class_name,
    ("rbac.authorization.k8s.io", "clusterroles"): path_segment_name,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): path_segment_name,
    ("rbac.authorization.k8s.io", "roles"): path_segment_name,
    ("rbac.authorization.k8s.io", "rolebindings"): path_segment_name,
}
_CONDITIONAL = {("", "persistentvolumeclaims"): True}


def counts_generation(ctx: Context) -> bool:
    """Whether the kind's metadata.generation is kept."""
    return ctx.kind.custom is not None or (ctx.kind.group, ctx.kind.plural) in _COUNTED


def name_rule(ctx: Context) -> NameRule:
    """What names objects of the kind may have."""
    return _NAME_RULES.get((ctx.kind.group, ctx.kind.plural), dns_subdomain_name)


# Groups whose kinds upstream validates without the core group's rules.
_WITHOUT_CORE_RULES = frozenset(
    {"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io"}
)


def _kube_finalizers(obj: JsonObject, ctx: Context) -> list[FieldError]:
    if ctx.kind.custom is not None or ctx.kind.group in _WITHOUT_CORE_RULES:
        return []
    return validate_kube_finalizers(obj["metadata"])


def _changes(obj: JsonObject, old: JsonObject, ctx: Context) -> bool:
    """Whether more than metadata and status differ; to a built-in kind an empty list is none."""
    new, before = _payload(obj), _payload(old)
    if ctx.kind.custom is not None or not differs(new, before):
        return differs(new, before)
    new = orjson.loads(orjson.dumps(new))
    strip(object_type(ctx.kind, ctx.kind.storage_version), new)
    return differs(new, before)


def _payload(obj: JsonObject) -> JsonObject:
    return {
        key: value for key, value in obj.items() if key not in {"metadata", "status", "apiVersion", "kind"}
    }


class GenericStrategy:
    """Names and metadata as upstream has them; a status only through its subresource; generations counted."""

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """A new object has no status where the kind has a status subresource; a kubelet's node brings its own."""
        if ctx.kind.has_status and "status" in obj and (ctx.kind.group, ctx.kind.plural) != ("", "nodes"):
            obj["status"] = {}
        if counts_generation(ctx):
            obj["metadata"]["generation"] = 1

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """The metadata's errors."""
        if ctx.metadata_good:
            return _kube_finalizers(obj, ctx)
        errors = validate_metadata(obj["metadata"], ctx.kind.namespaced, name_rule(ctx))
        return errors + _kube_finalizers(obj, ctx)

    def warnings_on_create(self, obj: JsonObject, ctx: Context) -> list[str]:
        """What it asks for that will not be as hoped."""
        return [] if ctx.kind.custom is not None else warnings_on_create(obj, _resource(ctx))

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Keep what this request can't change, and count the generation."""
        if ctx.subresource == "status":
            self._keep_all_but_status(obj, old)
            return
        if ctx.kind.has_status:
            if "status" in old:
                obj["status"] = old["status"]
            else:
                obj.pop("status", None)
        if counts_generation(ctx) and _changes(obj, old, ctx):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def _keep_all_but_status(self, obj: JsonObject, old: JsonObject) -> None:
        for key in [key for key in obj if key not in {"metadata", "status", "apiVersion", "kind"}]:
            del obj[key]
        for key, value in old.items():
            if key not in {"metadata", "status", "apiVersion", "kind"}:
                obj[key] = value

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """The metadata's errors."""
        if ctx.metadata_good:
            return _kube_finalizers(obj, ctx)
        return validate_metadata_update(obj["metadata"], old["metadata"]) + _kube_finalizers(obj, ctx)

    def warnings_on_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[str]:
        """What it asks for that will not be as hoped."""
        return [] if ctx.kind.custom is not None else warnings_on_update(obj, old, _resource(ctx))


def _resource(ctx: Context) -> tuple[str, str, str]:
    return ctx.kind.group, ctx.kind.plural, ctx.subresource
