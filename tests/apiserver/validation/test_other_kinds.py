"""What is wrong with storage, network and role objects, as kube-apiserver 1.36 says it."""

from typing import Any

import pytest
from dra_apiserver.validation.coreobjects import CHECKS

RBAC, NETWORK, STORAGE = "rbac.authorization.k8s.io", "networking.k8s.io", "storage.k8s.io"
NO_RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}


def texts(group: str, plural: str, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [str(error) for error in CHECKS[group, plural]({"metadata": {"name": "n"}, **obj}, old)]


def ingress(**path: Any) -> dict[str, Any]:
    one = {"path": "/", "pathType": "Prefix", "backend": BACKEND, **path}
    return {"spec": {"rules": [{"host": "a.com", "http": {"paths": [one]}}]}}


@pytest.mark.parametrize(
    ("obj", "found"),
    [
        ({"spec": {}}, ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]),
        (
            ingress(pathType=None),
            ["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"],
        ),
        (
            ingress(path="x"),
            ['spec.rules[0].http.paths[0].path: Invalid value: "x": must be an absolute path'],
        ),
        (
            ingress(backend={"service": {"name": "s"}}),
            ["spec.rules[0].http.paths[0].backend: Required value: port name or number is required"],
        ),
        (
            {"spec": {"defaultBackend": {}}},
            ['spec.defaultBackend: Invalid value: "": resource or service backend is required'],
        ),
        (ingress(), []),
    ],
)
def test_ingresses(obj: dict[str, Any], found: list[str]) -> None:
    assert texts(NETWORK, "ingresses", obj) == found


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ({"from": [{}]}, ["from[0]: Required value: must specify a peer"]),
        (
            {"from": [{"ipBlock": {"cidr": "x"}}]},
            [f'from[0].ipBlock.cidr: Invalid value: "x": {NO_RANGE}'],
        ),
        (
            {"ports": [{"protocol": "x", "port": 1}]},
            ['ports[0].protocol: Unsupported value: "x": supported values: "TCP", "UDP", "SCTP"'],
        ),
        (
            {"ports": [{"port": 90, "endPort": 80}]},
            ["ports[0].endPort: Invalid value: 90: must be greater than or equal to `port`"],
        ),
    ],
)
def test_network_policies(rule: dict[str, Any], found: list[str]) -> None:
    obj = {"spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [rule]}}
    assert texts(NETWORK, "networkpolicies", obj) == [f"spec.ingress[0].{text}" for text in found]


def test_roles_and_bindings() -> None:
    assert texts(RBAC, "roles", {"rules": [{}]}) == [
        "rules[0].verbs: Required value: verbs must contain at least one value",
        "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        "rules[0].resources: Required value: resource rules must supply at least one resource",
    ]
    url = {"verbs": ["get"], "nonResourceURLs": ["/x"]}
    assert texts(RBAC, "clusterroles", {"rules": [url]}) == []
    assert texts(RBAC, "roles", {"rules": [url]}) == [
        'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs'
    ]
    role = {"apiGroup": RBAC, "kind": "Role", "name": "r"}
    subject = {"kind": "Robot", "name": "x"}
    assert texts(RBAC, "rolebindings", {"roleRef": role, "subjects": [subject]}) == [
        'subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"'
    ]
    changed = {**role, "name": "other"}
    assert texts(RBAC, "rolebindings", {"roleRef": changed}, {"roleRef": role}) == [
        'roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"other"}: '
        "cannot change roleRef"
    ]


def test_storage_classes() -> None:
    assert texts(STORAGE, "storageclasses", {"volumeBindingMode": "Immediate"}) == [
        "provisioner: Required value"
    ]
    old = {"provisioner": "a.com/x", "volumeBindingMode": "Immediate", "reclaimPolicy": "Delete"}
    assert texts(STORAGE, "storageclasses", {**old, "reclaimPolicy": "Retain"}, old) == [
        'reclaimPolicy: Invalid value: "Retain": field is immutable'
    ]


def test_drivers_attachments_and_runtime_classes() -> None:
    spec = {"attachRequired": True, "podInfoOnMount": False, "volumeLifecycleModes": ["x"]}
    assert texts(STORAGE, "csidrivers", {"spec": spec}) == [
        'spec.volumeLifecycleModes: Unsupported value: "x": supported values: "Persistent", "Ephemeral"'
    ]
    attachment = {"spec": {"attacher": "a.com", "nodeName": "n", "source": {}}}
    assert texts(STORAGE, "volumeattachments", attachment) == [
        "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    ]
    assert texts("node.k8s.io", "runtimeclasses", {}) == ["handler: Required value"]


def test_autoscalers() -> None:
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"minReplicas": 3, "maxReplicas": 2, "scaleTargetRef": reference, "metrics": [metric]}
    assert texts("autoscaling", "horizontalpodautoscalers", {"spec": spec}) == [
        "spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`",
        "spec.metrics[0].resource.target.averageUtilization: Required value: "
        "must set either a target raw value or a target utilization",
    ]
