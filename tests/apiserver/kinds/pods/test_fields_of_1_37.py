"""Test the fields of pods that are new in Kubernetes 1.37, and those that older gates drop."""

import copy
from typing import Any

import pytest
from dra_apiserver.kinds.pods.defaults import pod as set_defaults
from dra_apiserver.kinds.pods.defaults import pod_template as set_template_defaults
from dra_apiserver.kinds.pods.spec import check_pod
from dra_apiserver.kinds.pods.volumehealth import check_volume_health
from dra_apiserver.verdict import Judge
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_34, V1_36, V1_37

from tests.support.cases import each_case

_PROBE = {"httpGet": {"port": 80, "protocol": "HTTP2"}}
_POD: JsonObject = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "x",
                "volumeMounts": [{"name": "e", "mountPath": "/e", "bindMountOptions": ["noexec"]}],
                "readinessProbe": _PROBE,
                "livenessProbe": {"grpc": {"port": 80, "mode": "TLS"}},
                "lifecycle": {"preStop": {"httpGet": {"port": 80, "protocol": "HTTP1"}}},
            }
        ],
        "volumes": [
            {"name": "e", "emptyDir": {"mode": 0o700}},
            {
                "name": "cm",
                "configMap": {
                    "name": "cm",
                    "defaultUser": 1000,
                    "items": [{"key": "k", "path": "p", "user": 5}],
                },
            },
            {
                "name": "p",
                "projected": {
                    "defaultUser": 1,
                    "sources": [{"serviceAccountToken": {"path": "t", "user": 2}}],
                },
            },
        ],
        "evictionResponders": [{"name": "a.example.com/x", "priority": 1000}],
    },
}
_GATES = {
    "AtomicWriteVolumeUserFields": {
        "spec.volumes[1].configMap.defaultUser",
        "spec.volumes[1].configMap.items[0].user",
        "spec.volumes[2].projected.defaultUser",
        "spec.volumes[2].projected.sources[0].serviceAccountToken.user",
    },
    "EmptyDirVolumeMode": {"spec.volumes[0].emptyDir.mode"},
    "EvictionRequestAPI": {"spec.evictionResponders"},
    "GRPCContainerProbeTLS": {"spec.containers[0].livenessProbe.grpc.mode"},
    "H2CContainerProbe": {
        "spec.containers[0].lifecycle.preStop.httpGet.protocol",
        "spec.containers[0].readinessProbe.httpGet.protocol",
    },
    "VolumeBindMountOptions": {"spec.containers[0].volumeMounts[0].bindMountOptions"},
}


@each_case("gate", _GATES)
def test_new_pod_fields_are_dropped_if_their_gate_is_disabled(gate: str) -> None:
    on = dict.fromkeys(_GATES, True)
    assert Judge(FeatureGates(V1_37, **on)).create(_POD).dropped == ()
    assert set(Judge(FeatureGates(V1_37, **{**on, gate: False})).create(_POD).dropped) == _GATES[gate]
    kept = copy.deepcopy(_POD)
    kept["metadata"]["uid"] = "1"
    assert Judge(FeatureGates(V1_37)).keep(kept).dropped == ()


def test_claims_are_dropped_while_dynamic_resource_allocation_is_off() -> None:
    pod = copy.deepcopy(_POD)
    container = {"name": "c", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}
    pod["spec"] = {
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    }
    verdict = Judge(FeatureGates(V1_34, DynamicResourceAllocation=False)).create(pod)
    assert set(verdict.dropped) == {"spec.resourceClaims", "spec.containers[0].resources.claims"}
    assert Judge(FeatureGates(V1_34)).create(pod).dropped == ()


def _errors(**spec: Any) -> list[str]:
    pod = copy.deepcopy(_POD)
    pod["spec"].update(copy.deepcopy(spec))
    set_defaults(pod, "v1", "")
    return [str(error) for error in check_pod(pod)]


def _with_container(**fields: Any) -> list[str]:
    return _errors(containers=[{"name": "c", "image": "x", **fields}])


def test_new_fields_of_volumes_are_validated() -> None:
    assert _errors() == []
    volumes = [
        {"name": "e", "emptyDir": {"mode": 0o2000}},
        {"name": "s", "secret": {"secretName": "s", "defaultUser": -1}},
    ]
    mount = {"name": "e", "mountPath": "/e", "bindMountOptions": ["sync", "nodev", "nodev"]}
    assert _errors(volumes=volumes) == [
        "spec.volumes[0].emptyDir.mode: Invalid value: 1024: must be a number between 0 and 01777 (octal), both "
        "inclusive",
        "spec.volumes[1].secret.defaultUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        'spec.containers[0].volumeMounts[0].name: Not found: "e"',
    ]
    at = "spec.containers[0].volumeMounts[0].bindMountOptions"
    assert _with_container(volumeMounts=[mount]) == [
        f'{at}[0]: Unsupported value: "sync": supported values: "nodev", "noexec", "nosuid"',
        f'{at}[2]: Duplicate value: "nodev"',
    ]


@pytest.mark.parametrize(
    ("action", "wanted"),
    [
        (
            {"httpGet": {"port": 80, "protocol": "HTTP3"}},
            'httpGet.protocol: Unsupported value: "HTTP3": supported values: "HTTP1", "HTTP2"',
        ),
        (
            {"httpGet": {"port": 80, "protocol": "HTTP2", "scheme": "HTTPS"}},
            'httpGet.protocol: Invalid value: "HTTP2": is only supported with HTTP (H2C)',
        ),
        (
            {"httpGet": {"port": 80, "protocol": "HTTP2", "host": "h"}},
            'httpGet.host: Invalid value: "h": must be empty when `protocol` is "HTTP2"',
        ),
        (
            {"grpc": {"port": 80, "mode": "Clear"}},
            'grpc.mode: Unsupported value: "Clear": supported values: "Plaintext", "TLS"',
        ),
    ],
)
def test_protocols_of_probes_are_validated(action: JsonObject, wanted: str) -> None:
    assert _with_container(readinessProbe=action) == [f"spec.containers[0].readinessProbe.{wanted}"]


@pytest.mark.parametrize(("gate", "wanted"), [(True, "HTTP1"), (False, None)])
def test_http_probes_of_pods_have_a_protocol_with_its_gate(gate: bool, wanted: str | None) -> None:
    judge = Judge(FeatureGates(V1_37, H2CContainerProbe=gate))
    request = {"httpGet": {"port": 80}}
    pod = copy.deepcopy(_POD)
    pod["spec"]["containers"] = [
        {"name": "c", "image": "x", "livenessProbe": request, "lifecycle": {"postStart": request}}
    ]
    verdict = judge.create(pod)
    assert verdict.stored is not None
    container = verdict.stored["spec"]["containers"][0]
    assert container["livenessProbe"]["httpGet"].get("protocol") == wanted
    assert container["lifecycle"]["postStart"]["httpGet"].get("protocol") == wanted
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": pod["spec"]["containers"]}}
    set_template_defaults(template)
    assert "protocol" not in template["spec"]["containers"][0]["livenessProbe"]["httpGet"]


@pytest.mark.parametrize(
    ("responder", "wanted"),
    [
        ({}, ["name: Required value", "priority: Required value"]),
        (
            {"name": "x", "priority": -1},
            [
                "name: Invalid value: \"x\": must include a prefix (e.g. 'example.com/key')",
                "priority: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            {"name": "a.k8s.io/x", "priority": 999},
            [
                'name: Invalid value: "a.k8s.io/x": domain names *.k8s.io, *.kubernetes.io are reserved',
                "priority: Invalid value: 999: priorities 0-999 are reserved for responders with *.k8s.io suffix",
            ],
        ),
        (
            {"name": "a.example/x", "priority": 100_001},
            ["priority: Invalid value: 100001: must be less than or equal to 100000"],
        ),
    ],
)
def test_eviction_responders_are_validated(responder: JsonObject, wanted: list[str]) -> None:
    found = _errors(evictionResponders=[responder])
    assert found == [f"spec.evictionResponders[0].{text}" for text in wanted]


def test_eviction_responders_are_limited_and_rejected_for_pods_of_groups() -> None:
    responder = {"name": "a.example/x", "priority": 1000}
    assert _errors(evictionResponders=[responder] * 11) == [
        "spec.evictionResponders: Too many: 11: must have at most 10 items"
    ]
    assert _errors(evictionResponders=[responder] * 2) == [
        'spec.evictionResponders[1]: Duplicate value: {"name":"a.example/x","priority":1000}'
    ]
    assert _errors(schedulingGroup={"podGroupName": "g"}) == [
        "spec.schedulingGroup: Forbidden: may not be set when evictionResponders is set"
    ]


def test_health_of_volumes_is_validated() -> None:
    condition = {"status": "DataLoss", "reason": "Lost"}
    volumes: list[JsonObject] = [
        {"name": "e", "healthConditions": [condition, condition, {"reason": "1"}]},
        {"name": "z"},
    ]
    found = [str(error) for error in check_volume_health(volumes, {"volumes": [{"name": "e"}]}, "h")]
    assert [text.partition(":")[0] for text in found] == [
        "h[0].healthConditions[1]",
        "h[0].healthConditions[2].status",
        "h[0].healthConditions[2].reason",
        "h[1].name",
    ]
    assert check_volume_health([{"name": "e", "healthConditions": [condition]}], _POD["spec"], "h") == []


def test_versions_before_1_37_reject_the_new_pod_fields_as_unknown() -> None:
    assert "spec.evictionResponders" in Judge(FeatureGates(V1_36)).create(_POD).dropped


@pytest.mark.parametrize("on", [True, False])
def test_new_fields_of_other_kinds_need_their_gates(on: bool) -> None:
    gates = FeatureGates(
        V1_37, GenericWorkload=True, WorkloadWithJob=on, InPlacePodVerticalScalingSchedulerPreemption=on
    )
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 1}}}, "template": {"spec": pod}},
    }
    assert Judge(gates).create(job).dropped == (() if on else ("spec.scheduling",))
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a"},
        "spec": {"podPreemptionPolicy": {"disableResizePreemption": ["x"]}},
    }
    assert Judge(gates).create(node).dropped == (() if on else ("spec.podPreemptionPolicy",))
