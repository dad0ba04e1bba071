"""Test the warnings about stored objects against those of kube-apiserver 1.36."""

import pytest
from dra_apiserver.common.addresswarnings import address_warnings, range_warnings
from dra_apiserver.kinds.pods.specwarnings import pod_warnings
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case
from tests.support.somekinds import built_in


def warnings(obj: JsonObject, old: JsonObject | None, resource: tuple[str, str, str]) -> list[str]:
    group, plural, subresource = resource
    return list(built_in(group, plural).warnings[subresource](obj, old))


OLD_OS = {"beta.kubernetes.io/os": "linux"}
OS_TEXT = 'deprecated since v1.14; use "kubernetes.io/os" instead'
NO_PODS = "a null labelSelector results in matching no pod"
HIDES = 'hides previous definition of "A", which may be dropped when using apply'


# Long: one pod with every field that causes a warning, because the order of warnings matters.
def test_each_questionable_field_of_a_pod_has_a_warning() -> None:
    container = {
        "name": "c",
        "env": [
            {"name": "A", "value": "a"},
            {"name": "A", "value": "$(A)b"},
            {"name": "A", "value": "c"},
            {"name": "A", "value": "$(A)"},
        ],
        "resources": {
            "requests": {"memory": "1500m", "cpu": "1m"},
            "limits": {"memory": "2500m", "ephemeral-storage": "100m"},
        },
        "ports": [
            {"containerPort": 80, "name": "a", "protocol": "TCP"},
            {"containerPort": 80, "name": "b", "hostPort": 81, "protocol": "TCP"},
            {"containerPort": 80, "hostPort": 81, "hostIP": "1.2.3.4", "protocol": "TCP"},
            {"containerPort": 90, "hostIP": "1.2.3.4", "protocol": "UDP"},
        ],
    }
    other = {"name": "d", "ports": [{"containerPort": 80, "name": "a", "protocol": "TCP"}]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "node-role.kubernetes.io/master"}]}]}
    preference = {"matchExpressions": [{"key": "beta.kubernetes.io/arch", "values": ["-bad", "ok"]}]}
    spec = {
        "nodeSelector": OLD_OS,
        "terminationGracePeriodSeconds": -3,
        "imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}],
        "hostAliases": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}, {"ip": "fd00:0::1"}],
        "topologySpreadConstraints": [{"topologyKey": "failure-domain.beta.kubernetes.io/zone"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": required,
                "preferredDuringSchedulingIgnoredDuringExecution": [{"preference": preference}],
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]},
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {}}]},
        },
        "containers": [container, other],
    }
    annotations = {
        "scheduler.alpha.kubernetes.io/critical-pod": "",
        "seccomp.security.alpha.kubernetes.io/pod": "x",
    }
    affinity = "spec.affinity"
    zone = 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ports = "spec.containers[0].ports"
    fraction = "is invalid, must be an integer"
    assert list(pod_warnings({"metadata": {"annotations": annotations}, "spec": spec})) == [
        f"spec.nodeSelector[beta.kubernetes.io/os]: {OS_TEXT}",
        f"{affinity}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
        "matchExpressions[0].key: node-role.kubernetes.io/master is use "
        '"node-role.kubernetes.io/control-plane" instead',
        f"{affinity}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference."
        'matchExpressions[0].key: beta.kubernetes.io/arch is deprecated since v1.14; use "kubernetes.io/arch" '
        "instead",
        f"{affinity}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference."
        "matchExpressions[0].values[0]: -bad is invalid, a valid label must be an empty string or consist of "
        "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
        "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        f"spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/zone is {zone}",
        f"spec.topologySpreadConstraints[0].labelSelector: {NO_PODS}",
        "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; "
        'use the "priorityClassName" field instead',
        'spec.hostAliases[1].ip: duplicate ip "1.2.3.4"',
        'spec.imagePullSecrets[1].name: duplicate name "a"',
        'spec.imagePullSecrets[2].name: invalid empty name ""',
        "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; "
        'use the "seccompProfile" field instead',
        f'spec.containers[0].resources.limits[memory]: fractional byte value "2500m" {fraction}',
        f'spec.containers[0].resources.requests[memory]: fractional byte value "1500m" {fraction}',
        f'spec.containers[0].resources.limits[ephemeral-storage]: fractional byte value "100m" {fraction}',
        f"spec.containers[0].env[2]: {HIDES}",
        f"spec.containers[0].env[3]: {HIDES}",
        f"{ports}[1]: overlapping port definition with {ports}[0]",
        f"{ports}[2]: overlapping port definition with {ports}[0]",
        f"{ports}[2]: dangerously ambiguous port definition with {ports}[1]",
        f"{ports}[3]: hostIP set without hostPort: {{Name: HostPort:0 ContainerPort:90 Protocol:UDP HostIP:1.2.3.4}}",
        f"spec.containers[1].ports[0]: duplicate port definition with {ports}[0]",
        f"spec.containers[1].ports[0]: overlapping port definition with {ports}[1]",
        f"spec.containers[1].ports[0]: overlapping port definition with {ports}[2]",
        f'spec.containers[1].ports[0]: duplicate port name "a" with {ports}[0], services and probes that select '
        f"ports by name will use {ports}[0]",
        "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
        f"{affinity}.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm."
        f"labelSelector: {NO_PODS}",
        f"{affinity}.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: {NO_PODS}",
        'spec.hostAliases[2].ip: IPv6 address "fd00:0::1" should be in RFC 5952 canonical format ("fd00::1")',
    ]


def test_removed_volume_types_and_overlapping_files_have_warnings() -> None:
    items = [{"path": "p"}, {"path": "p/q"}, {"path": "r"}]
    sources = [
        {"configMap": {"name": "cm", "items": [{"path": "p"}]}},
        {"secret": {"name": "s", "items": [{"path": "p/"}]}},
        {"serviceAccountToken": {"path": "p/q"}},
        {},
    ]
    claim = {"resources": {"requests": {"storage": "1500m"}}}
    volumes = [
        {"name": "g", "gitRepo": {"repository": "a"}},
        {"name": "c", "configMap": {"name": "cm", "items": items}},
        {"name": "p", "projected": {"sources": sources}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}},
    ]
    below = "volumeClaimTemplate.spec.resources.requests[storage]"
    assert list(pod_warnings({"spec": {"volumes": volumes}}, "spec.template.")) == [
        "spec.template.spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
        f'spec.template.spec.volumes[3].ephemeral.{below}: fractional byte value "1500m" is invalid, '
        "must be an integer",
        'volume "c" (ConfigMap "cm"): overlapping paths: "p/q" with "p"',
        'volume "p" (Projected) has no sources provided',
        'volume "p" (Projected): overlapping paths: "p" (Secret "s") with "p" (ConfigMap "cm")',
        'volume "p" (Projected): overlapping paths: "p/q" (ServiceAccountToken) with "p" (ConfigMap "cm")',
        'volume "p" (Projected): overlapping paths: "p/q" (ServiceAccountToken) with "p" (Secret "s")',
    ]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("1.2.3.4", ""),
        ("1.2.3.04", 'non-standard IP address "1.2.3.04" is invalid: use "1.2.3.4"'),
        ("::ffff:1.2.3.4", 'non-standard IP address "::ffff:1.2.3.4" is invalid: use "1.2.3.4"'),
        ("FD00::1", 'IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")'),
    ],
)
def test_non_canonical_addresses_have_warnings(value: str, problem: str) -> None:
    assert list(address_warnings("p", value)) == ([f"p: {problem}"] if problem else [])


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("10.0.0.0/8", ""),
        (
            "10.0.0.1/8",
            'CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)',
        ),
        ("010.0.0.0/8", 'non-standard CIDR value "010.0.0.0/8" is invalid: use "10.0.0.0/8"'),
        ("FD00::/8", 'IPv6 CIDR value "FD00::/8" should be in RFC 5952 canonical format ("fd00::/8")'),
    ],
)
def test_non_canonical_ranges_have_warnings(value: str, problem: str) -> None:
    assert list(range_warnings("p", value)) == ([f"p: {problem}"] if problem else [])


def test_only_new_pods_get_warnings() -> None:
    pod = {"metadata": {"name": "a.b"}, "spec": {"nodeSelector": OLD_OS}}
    assert warnings(pod, None, ("", "pods", "")) == [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
        "a DNS label is recommended: [must not contain dots]",
        f"spec.nodeSelector[beta.kubernetes.io/os]: {OS_TEXT}",
    ]
    assert warnings(pod, pod, ("", "pods", "")) == []


def test_pod_templates_get_warnings_only_if_the_generation_changes() -> None:
    template = {"spec": {"nodeSelector": OLD_OS}}
    old: JsonObject = {"metadata": {"name": "d", "generation": 1}, "spec": {"template": template}}
    new = {**old, "metadata": {"name": "d", "generation": 2}}
    text = f"spec.template.spec.nodeSelector[beta.kubernetes.io/os]: {OS_TEXT}"
    assert warnings(new, old, ("apps", "deployments", "")) == [text]
    assert warnings(old, old, ("apps", "deployments", "")) == []


_CLASS = "volume.beta.kubernetes.io/storage-class"


@each_case(
    ("resource", "obj", "texts"),
    [
        (
            ("apps", "statefulsets", ""),
            {"spec": {"revisionHistoryLimit": -1}},
            [
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is "
                "recommended"
            ],
        ),
        (
            ("", "resourcequotas", ""),
            {
                "spec": {
                    "hard": {"cpu": "3", "limits.cpu": "2", "requests.memory": "3Gi", "limits.memory": "4Gi"}
                }
            },
            ["ResourceQuota cpu (3) should be less than limits.cpu (2)"],
        ),
        (
            ("", "persistentvolumes", ""),
            {
                "metadata": {"annotations": {_CLASS: "a"}},
                "spec": {"persistentVolumeReclaimPolicy": "Recycle"},
            },
            [
                f'metadata.annotations[{_CLASS}]: deprecated since v1.8; use "storageClassName" attribute instead',
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the "
                "recommended approach is to use dynamic provisioning.",
            ],
        ),
        (
            ("", "secrets", ""),
            {"type": "kubernetes.io/tls", "data": {"tls.crt": "YQ==", "tls.key": "YQ=="}},
            ["tls: failed to find any PEM data in certificate input"],
        ),
        (
            ("networking.k8s.io", "ingresses", ""),
            {"metadata": {"annotations": {"kubernetes.io/ingress.class": "nginx"}}},
            [
                'annotation "kubernetes.io/ingress.class" is deprecated, please use '
                "'spec.ingressClassName' instead"
            ],
        ),
        (
            ("storage.k8s.io", "csidrivers", ""),
            {"spec": {"tokenRequests": [{"audience": "a"}]}},
            [
                "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to "
                "prevent possible logging of tokens in volume attributes"
            ],
        ),
        (
            ("discovery.k8s.io", "endpointslices", ""),
            {"addressType": "FQDN", "endpoints": [{"addresses": ["a.b"]}]},
            ["spec.addressType: FQDN endpoints are deprecated"],
        ),
        (
            ("node.k8s.io", "runtimeclasses", ""),
            {"scheduling": {"nodeSelector": OLD_OS}},
            [f"scheduling.nodeSelector: {OS_TEXT}"],
        ),
        (
            ("storage.k8s.io", "csistoragecapacities", ""),
            {"nodeTopology": {"matchLabels": OLD_OS}},
            [f"nodeTopology.matchLabels.beta.kubernetes.io/os: {OS_TEXT}"],
        ),
    ],
)
def test_questionable_fields_of_other_kinds_have_warnings(
    resource: tuple[str, str, str], obj: JsonObject, texts: list[str]
) -> None:
    assert warnings({"metadata": {"name": "x"}, **obj}, None, resource) == texts
