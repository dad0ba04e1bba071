"""The plain kinds of the core group and their like."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

from dra_shared.names import max_length_message, regex_message

from dra_apiserver.errors import (
    ErrorType,
    FieldError,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_long,
)
from dra_apiserver.strategy.objectmeta import IMMUTABLE
from dra_apiserver.validation import csi, flowcontrol, names, networking, rbac, storage
from dra_apiserver.validation.addresses import check_legacy_range
from dra_apiserver.validation.autoscaler import check_autoscaler
from dra_apiserver.validation.counts import check_count_or_percent
from dra_apiserver.validation.endpointslices import check_endpoint_slice
from dra_apiserver.validation.labelselectors import check_label_selector
from dra_apiserver.validation.limitrange import check_limit_range
from dra_apiserver.validation.podspec import check_template
from dra_apiserver.validation.resourcequota import check_quota

JsonObject = dict[str, Any]
_FLOW = "flowcontrol.apiserver.k8s.io"
_LARGEST = 1024 * 1024
_NO_CHANGE = "field is immutable when `immutable` is set"
_KEY = "[-._a-zA-Z0-9]+"
_KEY_LENGTH = 253
# What a secret of a type must hold.
_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_SERVICE_ACCOUNT = "kubernetes.io/service-account.name"
_HIGHEST_PRIORITY = 1_000_000_000
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREEMPTION = ("PreemptLowerPriority", "Never")
_NODE_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


def _check_key(key: str, path: str) -> list[FieldError]:
    problems = []
    if len(key.encode()) > _KEY_LENGTH:
        problems.append(max_length_message(_KEY_LENGTH))
    if not re.fullmatch(_KEY, key):
        text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        problems.append(regex_message(text, _KEY, "key.name", "KEY_NAME", "key-name"))
    if key in (".", ".."):
        problems.append(f"must not be '{key}'")
    elif key.startswith(".."):
        problems.append("must not start with '..'")
    return [invalid(f"{path}[{key}]", key, text) for text in problems]


def _size(value: str | None, encoded: bool) -> int:
    if not value:
        return 0
    if not encoded:
        return len(value.encode())
    try:
        return len(base64.b64decode(value))
    except (binascii.Error, ValueError):
        return len(value)


def check_config_map(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Good keys, not too large, and no change where it is immutable."""
    errors = _check_frozen(obj, old, ("data", "binaryData"))
    plain, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    for key in plain:
        errors += _check_key(key, "data")
        if key in binary:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key in binary:
        errors += _check_key(key, "binaryData")
    size = sum(_size(value, False) for value in plain.values())
    if size + sum(_size(value, True) for value in binary.values()) > _LARGEST:
        errors.append(too_long("", _LARGEST))
    return errors


def check_secret(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Good keys, those that its type needs, and a type that stays."""
    errors: list[FieldError] = []
    kind, data = obj.get("type", ""), obj.get("data") or {}
    if old is not None and kind != old.get("type", ""):
        errors.append(invalid("type", kind, IMMUTABLE))
    errors += _check_frozen(obj, old, ("data",))
    for key in data:
        errors += _check_key(key, "data")
    if sum(_size(value, True) for value in data.values()) > _LARGEST:
        errors.append(too_long("data", _LARGEST))
    if kind == "kubernetes.io/service-account-token":
        annotations = (obj.get("metadata") or {}).get("annotations") or {}
        if not annotations.get(_SERVICE_ACCOUNT):
            errors.append(required(f"metadata.annotations[{_SERVICE_ACCOUNT}]"))
    elif kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        errors += [required("data[username]"), required("data[password]")]
    errors += [required(f"data[{key}]") for key in _SECRET_KEYS.get(kind, ()) if key not in data]
    return errors


def _check_frozen(obj: JsonObject, old: JsonObject | None, fields: tuple[str, ...]) -> list[FieldError]:
    if old is None or not old.get("immutable"):
        return []
    changed = [] if obj.get("immutable") else ["immutable"]
    changed += [field for field in fields if (obj.get(field) or {}) != (old.get(field) or {})]
    return [forbidden_field(field, _NO_CHANGE) for field in changed]


def check_event(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """In the namespace of what it is about."""
    namespace = (obj.get("metadata") or {}).get("namespace", "")
    about = (obj.get("involvedObject") or {}).get("namespace", "")
    good = about == namespace if about else namespace in ("", "default", "kube-system")
    if good:
        return []
    return [invalid("involvedObject.namespace", about, "does not match event.namespace")]


def check_lease(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """A duration of more than nothing."""
    spec = obj.get("spec") or {}
    errors = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        text = "must be greater than or equal to 0"
        errors.append(invalid("spec.leaseTransitions", transitions, text))
    return errors


def check_priority_class(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """A value that users may give, and that stays."""
    name, value = (obj.get("metadata") or {}).get("name", ""), obj.get("value") or 0
    policy = obj.get("preemptionPolicy")
    if old is not None:
        errors = []
        if value != (old.get("value") or 0):
            errors.append(forbidden_field("value", "may not be changed in an update."))
        if policy != old.get("preemptionPolicy"):
            errors.append(invalid("preemptionPolicy", policy or "", IMMUTABLE))
        return errors
    errors = []
    if name.startswith("system-"):
        problem = _system_priority_problem(name, value, bool(obj.get("globalDefault")))
        if problem:
            text = "priority class names with 'system-' prefix are reserved for system use only. error: "
            errors.append(forbidden_field("metadata.name", text + problem))
    elif value > _HIGHEST_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"
        errors.append(forbidden_field("value", text))
    if policy is not None and policy not in _PREEMPTION:
        missing = [required("preemptionPolicy")]
        errors += [not_supported("preemptionPolicy", policy, _PREEMPTION)] if policy else missing
    return errors


def _system_priority_problem(name: str, value: int, is_default: bool) -> str:
    if name not in _SYSTEM_PRIORITIES:
        return f"{name} is not a known system priority class"
    if value != _SYSTEM_PRIORITIES[name]:
        return f"value of {name} PriorityClass must be {_SYSTEM_PRIORITIES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


def check_disruption_budget(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """At most one of the two bounds, each a number or a percentage."""
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        text = "minAvailable and maxUnavailable cannot be both set"
        errors.append(invalid("spec", spec, text))
    for field in ("minAvailable", "maxUnavailable"):
        if spec.get(field) is not None:
            errors += check_count_or_percent(spec[field], f"spec.{field}")
    errors += check_label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _EVICTION_POLICIES:
        errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES))
    return errors


def check_node(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Taints, each key once an effect; what a cloud or a network gave stays.

    Upstream says `metadata.taints`, where they once were an annotation.
    """
    spec, before = obj.get("spec") or {}, (old or {}).get("spec") or {}
    taints = _check_node_taints(spec)
    errors = [*taints]
    for index, one in enumerate(spec.get("podCIDRs") or ()):
        errors += check_legacy_range(one, f"spec.podCIDRs[{index}]", before.get("podCIDRs") or ())
    if before.get("podCIDRs") and (spec.get("podCIDRs") or []) != before["podCIDRs"]:
        text = 'node updates may not change podCIDR except from "" to valid'
        errors.append(forbidden_field("spec.podCIDRs", text))
    if before.get("providerID") and spec.get("providerID", "") != before["providerID"]:
        text = 'node updates may not change providerID except from "" to valid'
        errors.append(forbidden_field("spec.providerID", text))
    # Upstream looks at the taints of a changed node twice.
    return errors + (taints if old is not None else [])


def _check_node_taints(spec: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(spec.get("taints") or ()):
        at = f"metadata.taints[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        errors += names.label_name(key, f"{at}.key")
        errors += names.label_text(taint.get("value", ""), f"{at}.value")
        if not effect:
            errors.append(required(f"{at}.effect"))
        elif effect not in _NODE_EFFECTS:
            errors.append(not_supported(f"{at}.effect", effect, _NODE_EFFECTS))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": taint.get("value", ""), "Effect": effect}
            text = "taints must be unique by key and effect pair"
            errors.append(
                FieldError(ErrorType.DUPLICATE, at, {**shown, "TimeAdded": taint.get("timeAdded")}, text)
            )
        seen.add((key, effect))
    return errors


def check_pod_template(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """A template that stands alone."""
    return check_template(obj.get("template") or {}, "template")


Check = Callable[[JsonObject, JsonObject | None], list[FieldError]]
CHECKS: dict[tuple[str, str], Check] = {
    ("", "configmaps"): check_config_map,
    ("", "events"): check_event,
    ("", "limitranges"): check_limit_range,
    ("", "nodes"): check_node,
    ("", "podtemplates"): check_pod_template,
    ("", "resourcequotas"): check_quota,
    ("", "secrets"): check_secret,
    ("autoscaling", "horizontalpodautoscalers"): check_autoscaler,
    ("coordination.k8s.io", "leases"): check_lease,
    (_FLOW, "flowschemas"): flowcontrol.check_flow_schema,
    (_FLOW, "prioritylevelconfigurations"): flowcontrol.check_priority_level,
    ("networking.k8s.io", "ingresses"): networking.check_ingress,
    ("networking.k8s.io", "networkpolicies"): networking.check_network_policy,
    ("node.k8s.io", "runtimeclasses"): networking.check_runtime_class,
    ("policy", "poddisruptionbudgets"): check_disruption_budget,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): rbac.check_cluster_role_binding,
    ("rbac.authorization.k8s.io", "clusterroles"): rbac.check_cluster_role,
    ("rbac.authorization.k8s.io", "rolebindings"): rbac.check_role_binding,
    ("rbac.authorization.k8s.io", "roles"): rbac.check_role,
    ("discovery.k8s.io", "endpointslices"): check_endpoint_slice,
    ("storage.k8s.io", "csidrivers"): storage.check_csi_driver,
    ("storage.k8s.io", "csinodes"): csi.check_csi_node,
    ("storage.k8s.io", "csistoragecapacities"): csi.check_storage_capacity,
    ("storage.k8s.io", "storageclasses"): storage.check_storage_class,
    ("storage.k8s.io", "volumeattachments"): storage.check_attachment,
    ("storage.k8s.io", "volumeattributesclasses"): csi.check_volume_attributes_class,
    ("scheduling.k8s.io", "priorityclasses"): check_priority_class,
}
"""By (group, plural): the check of a new object, or of one changed from another."""
