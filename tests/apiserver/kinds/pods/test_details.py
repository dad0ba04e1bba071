"""Test the errors of invalid details of pods and pod templates, by field, against kube-apiserver 1.36."""

from typing import Any

import pytest
from dra_apiserver.common.labelselectors import format_selector
from dra_apiserver.kinds.apps.rollouts import check_strategy
from dra_apiserver.kinds.apps.strategy import ReplicationControllerStrategy
from dra_apiserver.kinds.pods.spec import check_pod_spec

from tests.support.cases import each_case

RESOURCES = (
    '"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", '
    '"requests.memory"'
)
PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    made = {
        "name": "c",
        "image": "i",
        "imagePullPolicy": "Always",
        "terminationMessagePolicy": "File",
        **(container or {}),
    }
    defaults = {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30}
    return {**defaults, "containers": [made], **spec}


def texts(spec: dict[str, Any]) -> list[str]:
    return [str(error) for error in check_pod_spec(spec, "spec")]


def volume(**source: Any) -> dict[str, Any]:
    return pod(volumes=[{"name": "v", **source}])


def test_claims_of_pod_level_resources_are_forbidden() -> None:
    spec = pod(
        resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}], resources={"claims": [{"name": "gpu"}]}
    )
    assert texts(spec) == [
        "spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level"
    ]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"fieldRef": {"apiVersion": "v1"}}, "fieldRef.fieldPath: Required value"),
        (
            {"fieldRef": {"apiVersion": "v1", "fieldPath": "nothing"}},
            'fieldRef.fieldPath: Invalid value: "nothing": error converting fieldPath: '
            "field label not supported: nothing",
        ),
        ({"resourceFieldRef": {}}, "resourceFieldRef.resource: Required value"),
        (
            {"resourceFieldRef": {"resource": "x"}},
            f'resourceFieldRef.resource: Unsupported value: "x": supported values: {RESOURCES}',
        ),
        ({"secretKeyRef": {"name": "s"}}, "secretKeyRef.key: Required value"),
    ],
)
def test_sources_of_environment_variables_are_validated(source: dict[str, Any], text: str) -> None:
    assert texts(pod({"env": [{"name": "A", "valueFrom": source}]})) == [
        f"spec.containers[0].env[0].valueFrom.{text}"
    ]


def test_an_environment_variable_with_value_from_needs_a_source() -> None:
    assert texts(pod({"env": [{"name": "A", "valueFrom": {}}]})) == [
        'spec.containers[0].env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, '
        "`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
    ]


@each_case(
    ("source", "found"),
    [
        (
            {"configMap": {"name": "c", "items": [{}]}},
            ["configMap.items[0].key: Required value", "configMap.items[0].path: Required value"],
        ),
        (
            {"downwardAPI": {"items": [{}]}},
            [
                "downwardAPI.path: Required value",
                "downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
            ],
        ),
        ({"projected": {"sources": [{"secret": {}}]}}, ["projected.sources[0].secret.name: Required value"]),
        (
            {"nfs": {"server": "s", "path": "x"}},
            ['nfs.path: Invalid value: "x": must be an absolute path'],
        ),
        (
            {"iscsi": {"targetPortal": "1.2.3.4", "iqn": "x", "lun": 300}},
            [
                'iscsi.iqn: Invalid value: "x": must be valid format starting with iqn, eui, or naa',
                "iscsi.lun: Invalid value: 300: must be between 0 and 255, inclusive",
            ],
        ),
        (
            {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            [
                "ephemeral.volumeClaimTemplate.spec.accessModes: Required value: at least 1 access mode is required",
                "ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
            ],
        ),
        ({"secret": {"secretName": "s", "defaultMode": 512}}, [
            "secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive"
        ]),
    ],
)  # fmt: skip
def test_invalid_volumes_are_rejected(source: dict[str, Any], found: list[str]) -> None:
    assert texts(volume(**source)) == [f"spec.volumes[0].{text}" for text in found]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"securityContext": {"runAsUser": -1}},
            "securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        ),
        (
            {"securityContext": {"seccompProfile": {"type": "x"}}},
            'securityContext.seccompProfile.type: Unsupported value: "x": supported values: "Localhost", '
            '"RuntimeDefault", "Unconfined"',
        ),
        (
            {"hostAliases": [{"ip": "x"}]},
            'hostAliases[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        ),
        ({"dnsConfig": {"options": [{}]}}, "dnsConfig.options[0]: Required value: must not be empty"),
        (
            {"dnsPolicy": "None"},
            "dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None",
        ),
    ],
)
def test_invalid_settings_of_the_whole_pod_are_rejected(spec: dict[str, Any], text: str) -> None:
    assert texts(pod(**spec)) == [f"spec.{text}"]


def test_duplicate_topology_spread_constraints_are_reported_once_at_the_first() -> None:
    one = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    assert texts(pod(topologySpreadConstraints=[one, one])) == [
        "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: "
        'Duplicate value: "{zone, DoNotSchedule}"'
    ]


@each_case(
    ("word", "spec", "found"),
    [
        (
            "deployment",
            {"strategy": {"type": "x", "rollingUpdate": {"maxUnavailable": "10%", "maxSurge": 2}}},
            [
                'spec.strategy: Unsupported value: {"Type":"x","RollingUpdate":{"MaxUnavailable":"10%","MaxSurge":2}}: '
                'supported values: "Recreate", "RollingUpdate"'
            ],
        ),
        (
            "deployment",
            {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}},
            [
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"
            ],
        ),
        (
            "deployment",
            {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": "x"}}},
            [f'spec.strategy.rollingUpdate.maxSurge: Invalid value: "x": {PERCENT}'],
        ),
        (
            "deployment",
            {"strategy": {"type": "Recreate", "rollingUpdate": {}}},
            [
                "spec.strategy.rollingUpdate: Forbidden: "
                "may not be specified when strategy `type` is 'Recreate'"
            ],
        ),
        (
            "daemonset",
            {
                "updateStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0},
                }
            },
            [
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"
            ],
        ),
        (
            "statefulset",
            {"podManagementPolicy": "x", "updateStrategy": {"type": "OnDelete"}},
            ["spec.podManagementPolicy: Invalid value: \"x\": must be 'OrderedReady' or 'Parallel'"],
        ),
    ],
)
def test_invalid_rollout_strategies_are_rejected(word: str, spec: dict[str, Any], found: list[str]) -> None:
    assert [str(error) for error in check_strategy(word, spec)] == found


def test_error_messages_show_the_labels_of_a_selector_sorted_by_key() -> None:
    assert format_selector({"matchExpressions": [], "matchLabels": {"b": "1", "a": "2"}}) == {
        "matchLabels": {"a": "2", "b": "1"}
    }


def test_a_replication_controller_selects_its_own_pods() -> None:
    spec = {
        "replicas": -1,
        "selector": {"a": "b"},
        "template": {"metadata": {"labels": {}}, "spec": pod()},
    }
    errors = ReplicationControllerStrategy()._validate_spec(spec)
    assert [str(error) for error in errors] == [
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        "spec.template.metadata.labels: Invalid value: {}: `selector` does not match template `labels`",
    ]


_RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"restartPolicy": "Never", "restartPolicyRules": [_RULE]}, []),
        ({"restartPolicy": "OnFailure"}, []),
        (
            {"restartPolicy": "Odd"},
            ['restartPolicy: Unsupported value: "Odd": supported values: "Always", "Never", "OnFailure"'],
        ),
        (
            {"restartPolicyRules": [_RULE]},
            ["restartPolicy: Required value: must specify restartPolicy when restart rules are used"],
        ),
        (
            {
                "restartPolicy": "Never",
                "restartPolicyRules": [
                    {"action": "Nope", "exitCodes": {"operator": "Near", "values": [1]}},
                    {"action": "RestartAllContainers"},
                ],
            },
            [
                'restartPolicyRules[0].action: Unsupported value: "Nope": supported values: "Restart", '
                '"RestartAllContainers"',
                'restartPolicyRules[0].exitCodes.operator: Unsupported value: "Near": supported values: "In", "NotIn"',
                "restartPolicyRules[1].exitCodes: Required value: must be specified",
            ],
        ),
    ],
)
def test_containers_may_have_restart_rules(container: dict[str, Any], expected: list[str]) -> None:
    assert texts(pod(container)) == [f"spec.containers[0].{text}" for text in expected]


BLOCK = {"name": "v", "persistentVolumeClaim": {"claimName": "p"}}
EMPTY = {"name": "e", "emptyDir": {}}


@pytest.mark.parametrize(
    ("devices", "found"),
    [
        ([{"name": "v", "devicePath": "/dev/x"}], []),
        ([{"name": "v"}], ["devicePath: Required value"]),
        ([{"name": "no", "devicePath": "/x"}], ['name: Not found: "no"']),
        (
            [{"name": "e", "devicePath": "/x/../y"}],
            [
                'name: Invalid value: "e": '
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                "devicePath: Invalid value: \"/x/../y\": can not contain backsteps ('..')",
            ],
        ),
    ],
)
def test_volume_devices_are_validated(devices: list[dict[str, Any]], found: list[str]) -> None:
    spec = pod({"volumeDevices": devices}, volumes=[BLOCK, EMPTY])
    assert texts(spec) == [f"spec.containers[0].volumeDevices[0].{one}" for one in found]


def test_a_volume_cannot_be_both_mounted_and_a_volume_device() -> None:
    container = {
        "volumeDevices": [{"name": "v", "devicePath": "/d"}],
        "volumeMounts": [{"name": "v", "mountPath": "/e"}],
    }
    assert texts(pod(container, volumes=[BLOCK])) == [
        'spec.containers[0].volumeMounts[0].name: Invalid value: "v": must not already exist in volumeDevices',
        'spec.containers[0].volumeDevices[0].name: Invalid value: "v": must not already exist in volumeMounts',
    ]


@each_case(
    ("spec", "found"),
    [
        (pod(hostnameOverride="a.b"), []),
        (
            pod(hostnameOverride="a", hostNetwork=True, setHostnameAsFQDN=True),
            [
                "spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
                "spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true",
            ],
        ),
        (pod(hostnameOverride="x" * 65), ["spec.hostnameOverride: Too long: may not be more than 64 bytes"]),
        (pod(os={}), ["spec.os.name: Required value"]),
        (pod(os={"name": "x"}), ['spec.os: Unsupported value: "x": supported values: "linux", "windows"']),
        (pod(dnsConfig={"searches": [".", "_a._b", "c."]}), []),
        (
            pod(dnsConfig={"searches": ["A"]}),
            [
                'spec.dnsConfig.searches[0]: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of '
                "lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric "
                "character (e.g. 'example.com', regex used for validation is "
                "'_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"
            ],
        ),
        (
            pod(dnsPolicy="None"),
            ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        ),
    ],
)
def test_host_names_and_operating_systems_are_validated(spec: dict[str, Any], found: list[str]) -> None:
    assert texts(spec) == found


@each_case(
    ("context", "found"),
    [
        (
            {"appArmorProfile": {}},
            ["appArmorProfile.type: Required value: type is required when appArmorProfile is set"],
        ),
        (
            {"appArmorProfile": {"type": "Localhost", "localhostProfile": " a"}},
            ['appArmorProfile.localhostProfile: Invalid value: " a": must not be padded with whitespace'],
        ),
        (
            {"appArmorProfile": {"type": "Unconfined", "localhostProfile": "a"}},
            [
                'appArmorProfile.localhostProfile: Invalid value: "a": '
                "can only be set when AppArmor type is Localhost"
            ],
        ),
        ({"windowsOptions": {"runAsUserName": "d\\u"}}, []),
        (
            {"windowsOptions": {"runAsUserName": "a\\b\\c"}},
            [
                'windowsOptions.runAsUserName: Invalid value: "a\\\\b\\\\c": '
                "runAsUserName cannot contain more than one backslash"
            ],
        ),
        (
            {"windowsOptions": {"runAsUserName": "..", "gmsaCredentialSpec": ""}},
            [
                'windowsOptions.gmsaCredentialSpec: Invalid value: "": gmsaCredentialSpec cannot be an empty string',
                'windowsOptions.runAsUserName: Invalid value: "..": '
                "runAsUserName's User cannot contain only periods or spaces",
            ],
        ),
    ],
)
def test_security_profiles_and_windows_options_are_validated(
    context: dict[str, Any], found: list[str]
) -> None:
    assert texts(pod(securityContext=context)) == [f"spec.securityContext.{one}" for one in found]
    container = pod({"securityContext": context})
    assert texts(container) == [f"spec.containers[0].securityContext.{one}" for one in found]
