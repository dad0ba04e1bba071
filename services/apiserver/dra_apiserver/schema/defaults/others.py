"""Defaults of the groups that only have a few."""

from collections.abc import Callable, Mapping
from typing import Any

Object = dict[str, Any]

_RBAC = "rbac.authorization.k8s.io"


def _priority_class(obj: Object, _version: str) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _storage_class(obj: Object, _version: str) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _csi_driver(obj: Object, _version: str) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    for name in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
        spec.setdefault(name, False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def _binding(obj: Object, _version: str) -> None:
    reference = obj.setdefault("roleRef", {})
    if not reference.get("apiGroup"):
        reference["apiGroup"] = _RBAC
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
            subject["apiGroup"] = _RBAC


def _endpoint_slice(obj: Object, _version: str) -> None:
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _network_policy(obj: Object, _version: str) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in [*(spec.get("ingress") or ()), *(spec.get("egress") or ())]:
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _ingress_class(obj: Object, _version: str) -> None:
    parameters = (obj.get("spec") or {}).get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")


def _match_rules(rules: Any) -> None:
    for rule in rules or ():
        rule.setdefault("scope", "*")


def _match_resources(match: Object | None) -> None:
    if match is None:
        return
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    _match_rules(match.get("resourceRules"))
    _match_rules(match.get("excludeResourceRules"))


def _webhooks(obj: Object, _version: str) -> None:
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


def _admission_policy(obj: Object, _version: str) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    _match_resources(spec.get("matchConstraints"))


def _admission_binding(obj: Object, _version: str) -> None:
    _match_resources((obj.get("spec") or {}).get("matchResources"))


def _custom_resource_definition(obj: Object, _version: str) -> None:
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if kind:
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", kind + "List")
    spec.setdefault("conversion", {}).setdefault("strategy", "None")
    for version in spec.get("versions") or ():
        if version.get("served") is None:
            version["served"] = False


def _api_service(obj: Object, _version: str) -> None:
    service = (obj.get("spec") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


# What scales where a behavior leaves it open.
_SCALE_UP: Object = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN: Object = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


def _autoscaler(obj: Object, version: str) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if version != "v2":
        return
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        for name, rules in (("scaleUp", _SCALE_UP), ("scaleDown", _SCALE_DOWN)):
            given = {key: value for key, value in (behavior.get(name) or {}).items() if value is not None}
            made = {**rules, **given}
            behavior[name] = {**made, "policies": [dict(policy) for policy in made["policies"]]}


def _flow_schema(obj: Object, _version: str) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


def _priority_level(obj: Object, _version: str) -> None:
    limited = (obj.get("spec") or {}).get("limited")
    if limited is not None:
        limited.setdefault("nominalConcurrencyShares", 30)
        limited.setdefault("lendablePercent", 0)
        queuing = (limited.get("limitResponse") or {}).get("queuing")
        if queuing is not None:
            for name, value in (("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)):
                if not queuing.get(name):
                    queuing[name] = value


RULES: Mapping[tuple[str, str], Callable[[Object, str], None]] = {
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("storage.k8s.io", "StorageClass"): _storage_class,
    ("storage.k8s.io", "CSIDriver"): _csi_driver,
    (_RBAC, "RoleBinding"): _binding,
    (_RBAC, "ClusterRoleBinding"): _binding,
    ("discovery.k8s.io", "EndpointSlice"): _endpoint_slice,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
    ("networking.k8s.io", "IngressClass"): _ingress_class,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _admission_policy,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): _admission_policy,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): _admission_binding,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): _admission_binding,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _custom_resource_definition,
    ("apiregistration.k8s.io", "APIService"): _api_service,
    ("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): _flow_schema,
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): _priority_level,
}
