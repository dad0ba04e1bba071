"""Test the errors of invalid storage, network and role objects against the texts of kube-apiserver 1.36."""

from typing import Any

import pytest
from dra_apiserver.common.checked import CheckedStrategy

from tests.support.cases import each_case
from tests.support.somekinds import built_in

RBAC, NETWORK, STORAGE = "rbac.authorization.k8s.io", "networking.k8s.io", "storage.k8s.io"
NO_RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}


def texts(group: str, plural: str, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    strategy = built_in(group, plural).strategy_for("")
    assert isinstance(strategy, CheckedStrategy)
    return [str(error) for error in strategy.check({"metadata": {"name": "n"}, **obj}, old)]


def ingress(**path: Any) -> dict[str, Any]:
    one = {"path": "/", "pathType": "Prefix", "backend": BACKEND, **path}
    return {"spec": {"rules": [{"host": "a.com", "http": {"paths": [one]}}]}}


@each_case(
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
def test_invalid_ingresses_are_rejected(obj: dict[str, Any], found: list[str]) -> None:
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
def test_rules_of_network_policies_are_validated(rule: dict[str, Any], found: list[str]) -> None:
    obj = {"spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [rule]}}
    assert texts(NETWORK, "networkpolicies", obj) == [f"spec.ingress[0].{text}" for text in found]


def test_roles_and_bindings_are_validated() -> None:
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


def test_storage_classes_are_validated() -> None:
    assert texts(STORAGE, "storageclasses", {"volumeBindingMode": "Immediate"}) == [
        "provisioner: Required value"
    ]
    old = {"provisioner": "a.com/x", "volumeBindingMode": "Immediate", "reclaimPolicy": "Delete"}
    assert texts(STORAGE, "storageclasses", {**old, "reclaimPolicy": "Retain"}, old) == [
        'reclaimPolicy: Invalid value: "Retain": field is immutable'
    ]


def test_drivers_attachments_and_runtime_classes_are_validated() -> None:
    spec = {"attachRequired": True, "podInfoOnMount": False, "volumeLifecycleModes": ["x"]}
    assert texts(STORAGE, "csidrivers", {"spec": spec}) == [
        'spec.volumeLifecycleModes: Unsupported value: "x": supported values: "Persistent", "Ephemeral"'
    ]
    attachment = {"spec": {"attacher": "a.com", "nodeName": "n", "source": {}}}
    assert texts(STORAGE, "volumeattachments", attachment) == [
        "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    ]
    assert texts("node.k8s.io", "runtimeclasses", {}) == ["handler: Required value"]


def test_invalid_autoscalers_are_rejected() -> None:
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"minReplicas": 3, "maxReplicas": 2, "scaleTargetRef": reference, "metrics": [metric]}
    assert texts("autoscaling", "horizontalpodautoscalers", {"spec": spec}) == [
        "spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`",
        "spec.metrics[0].resource.target.averageUtilization: Required value: "
        "must set either a target raw value or a target utilization",
    ]


FLOW = "flowcontrol.apiserver.k8s.io"
SUBJECT = {"kind": "User", "user": {"name": "u"}}
RULE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["*"]}


def flow_schema(**spec: Any) -> dict[str, Any]:
    base = {"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": 5}
    return {"spec": {**base, **spec}}


def flow_rule(**rule: Any) -> dict[str, Any]:
    return flow_schema(rules=[{"subjects": [SUBJECT], "resourceRules": [RULE], **rule}])


@each_case(
    ("obj", "found"),
    [
        (flow_rule(), []),
        (
            flow_schema(matchingPrecedence=1),
            [
                "spec.matchingPrecedence: Invalid value: 1: "
                "only the schema named 'exempt' may have matchingPrecedence 1"
            ],
        ),
        (
            flow_schema(distinguisherMethod={"type": "x"}),
            [
                'spec.distinguisherMethod.type: Unsupported value: {"Type":"x"}: '
                'supported values: "ByNamespace", "ByUser"'
            ],
        ),
        (
            flow_schema(priorityLevelConfiguration={}),
            ["spec.priorityLevelConfiguration.name: Required value: must reference a priority level"],
        ),
        (
            flow_rule(subjects=[], resourceRules=[]),
            [
                "spec.rules[0].subjects: Required value: subjects must contain at least one value",
                "spec.rules[0]: Required value: "
                "at least one of resourceRules and nonResourceRules has to be non-empty",
            ],
        ),
        (
            flow_rule(subjects=[{"kind": "Group", "user": {"name": "u"}}, {"kind": "x"}]),
            [
                "spec.rules[0].subjects[0].group: Required value: group is required when subject kind is 'Group'",
                "spec.rules[0].subjects[0].user: Forbidden: user is forbidden when subject kind is not 'User'",
                'spec.rules[0].subjects[1].kind: Unsupported value: "x": '
                'supported values: "Group", "ServiceAccount", "User"',
            ],
        ),
        (
            flow_rule(resourceRules=[{**RULE, "verbs": ["get", "*"], "namespaces": []}]),
            [
                'spec.rules[0].resourceRules[0].verbs: Invalid value: ["get","*"]: '
                "if '*' is present, must not specify other verbs",
                "spec.rules[0].resourceRules[0].namespaces: Required value: "
                "resource rules that are not cluster scoped must supply at least one namespace",
            ],
        ),
        (
            flow_rule(nonResourceRules=[{"verbs": ["x"], "nonResourceURLs": ["a", "/a*", "/a//b", "/a/*"]}]),
            [
                'spec.rules[0].nonResourceRules[0].verbs: Unsupported value: ["x"]: supported values: "create", '
                '"delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"',
                'spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "a": must start with slash',
                'spec.rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid value: "/a*": '
                "wildcard can only do suffix matching",
                'spec.rules[0].nonResourceRules[0].nonResourceURLs[2]: Invalid value: "/a//b": '
                "must not contain double slash",
            ],
        ),
    ],
)
def test_flow_schemas_are_validated(obj: dict[str, Any], found: list[str]) -> None:
    assert texts(FLOW, "flowschemas", obj) == found


def priority_level(response: dict[str, Any], **limited: Any) -> dict[str, Any]:
    limit = {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": response, **limited}
    return {"spec": {"type": "Limited", "limited": limit}}


def queue(**queuing: Any) -> dict[str, Any]:
    base = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
    return {"type": "Queue", "queuing": {**base, **queuing}}


@each_case(
    ("obj", "found"),
    [
        (priority_level(queue()), []),
        (
            priority_level(queue(handSize=11)),
            [
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 11: "
                "required entropy bits of deckSize 64 and handSize 11 should not be greater than 60"
            ],
        ),
        (
            priority_level(queue(queues=2, queueLengthLimit=-1)),
            [
                "spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive",
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 8: "
                "should not be greater than queues (2)",
            ],
        ),
        (
            priority_level({"type": "x"}, lendablePercent=101, borrowingLimitPercent=-1),
            [
                'spec.limited.limitResponse.type: Unsupported value: "x": supported values: "Queue", "Reject"',
                "spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
                "spec.limited.borrowingLimitPercent: Invalid value: -1: "
                "if specified, must be a non-negative integer",
            ],
        ),
        (
            {"spec": {"type": "Exempt"}},
            ["spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"],
        ),
        (
            {"spec": {"type": "Limited"}},
            ["spec.limited: Required value: must not be empty when type is Limited"],
        ),
        (
            {"metadata": {"name": "exempt"}, "spec": {"type": "Exempt", "exempt": {"lendablePercent": 3}}},
            [],
        ),
        (
            {
                "metadata": {"name": "catch-all"},
                "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
            },
            [
                'spec: Invalid value: {"Type":"Limited","Limited":{"NominalConcurrencyShares":0,"LimitResponse":'
                '{"Type":"Reject","Queuing":null},"LendablePercent":null,"BorrowingLimitPercent":null},'
                "\"Exempt\":null}: spec of 'catch-all' must equal the fixed value"
            ],
        ),
    ],
)
def test_priority_levels_are_validated(obj: dict[str, Any], found: list[str]) -> None:
    assert texts(FLOW, "prioritylevelconfigurations", obj) == found
