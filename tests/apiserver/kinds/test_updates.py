"""Test which fields an update may leave out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kinds import catalog
from dra_apiserver.schema import object_type
from dra_apiserver.schema.types import ListNode, MapNode, Node, Struct
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, VERSIONS, Version, release

from tests.support.cases import each_case

_ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "x"}}
_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
_LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x"}}
_MAPS = "/api/v1/namespaces/default/configmaps"
_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


@each_case(
    ("path", "obj", "codes"),
    [(_ROLES, _ROLE, [201, 200]), (_LEASES, _LEASE, [201, 422]), (_MAPS, _MAP, [404, 404])],
)
async def test_a_put_may_create_or_must_name_a_resource_version_depending_on_the_kind(
    client: httpx.AsyncClient, path: str, obj: dict[str, object], codes: list[int]
) -> None:
    body = {**obj, "metadata": {"name": "x", "labels": {"a": "b"}}}
    answers = [await client.put(f"{path}/x", json=one) for one in (obj, body)]
    assert [answer.status_code for answer in answers] == codes
    if codes[1] == 422:
        assert answers[1].json()["message"] == (
            'leases.coordination.k8s.io "x" is invalid: metadata.resourceVersion: Invalid value: 0: '
            "must be specified for an update"
        )


_GATES = ("GenericWorkload", "GangScheduling", "DRADeviceTaintRules", "DRADeviceTaints")
_POD_SPEC: JsonObject = {"containers": [{"name": "c", "image": "x", "resources": {"limits": {"cpu": "1"}}}]}
_LABELED: JsonObject = {"metadata": {"labels": {"a": "b"}}, "spec": _POD_SPEC}
_WORKLOAD: JsonObject = {"selector": {"matchLabels": {"a": "b"}}, "template": _LABELED}
_JOB: JsonObject = {"template": {"spec": {**_POD_SPEC, "restartPolicy": "Never"}}}
_DEVICES: JsonObject = {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu"}}]}}
_ALTERNATIVES: JsonObject = {
    "devices": {
        "requests": [{"name": "a", "firstAvailable": [{"name": "x", "deviceClassName": "gpu"}]}],
        "constraints": [{"matchAttribute": "example.com/parent"}],
        "config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"kind": "x"}}}],
    }
}
_VOLUME_CLAIM: JsonObject = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_RULES = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
_SAMPLES: list[tuple[str, str, JsonObject]] = [
    ("resource.k8s.io", "resourceclaims", {"spec": _DEVICES}),
    ("resource.k8s.io", "resourceclaims", {"spec": _ALTERNATIVES}),
    ("resource.k8s.io", "resourceclaimtemplates", {"spec": {"spec": _ALTERNATIVES}}),
    ("resource.k8s.io", "deviceclasses", {"spec": {"selectors": [{"cel": {"expression": "true"}}]}}),
    (
        "resource.k8s.io",
        "resourceslices",
        {
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "n",
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "d", "taints": [{"key": "a", "effect": "NoSchedule"}]}],
            }
        },
    ),
    (
        "resource.k8s.io",
        "devicetaintrules",
        {"spec": {"deviceSelector": {"driver": "d"}, "taint": {"key": "a", "effect": "NoExecute"}}},
    ),
    ("batch", "jobs", {"spec": _JOB}),
    ("batch", "jobs", {"spec": {**_JOB, "suspend": True}}),
    ("batch", "cronjobs", {"spec": {"schedule": "@daily", "jobTemplate": {"spec": _JOB}}}),
    ("apps", "statefulsets", {"spec": {**_WORKLOAD, "serviceName": "s"}}),
    (
        "apps",
        "statefulsets",
        {"spec": {**_WORKLOAD, "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": _VOLUME_CLAIM}]}},
    ),
    ("apps", "deployments", {"spec": _WORKLOAD}),
    ("apps", "replicasets", {"spec": _WORKLOAD}),
    ("apps", "daemonsets", {"spec": _WORKLOAD}),
    ("", "replicationcontrollers", {"spec": {"selector": {"a": "b"}, "template": _LABELED}}),
    ("", "podtemplates", {"template": _LABELED}),
    ("", "pods", {"spec": _POD_SPEC}),
    ("", "pods", {"spec": {**_POD_SPEC, "schedulingGates": [{"name": "g"}]}}),
    ("", "services", {"spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}}),
    ("", "persistentvolumeclaims", {"spec": _VOLUME_CLAIM}),
    (
        "",
        "persistentvolumes",
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "csi": {"driver": "d", "volumeHandle": "h"},
            }
        },
    ),
    ("", "nodes", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
    ("", "resourcequotas", {"spec": {"hard": {"pods": "1"}}}),
    ("storage.k8s.io", "storageclasses", {"provisioner": "d"}),
    ("storage.k8s.io", "csidrivers", {"spec": {}}),
    ("storage.k8s.io", "csinodes", {"spec": {"drivers": [{"name": "d", "nodeID": "n"}]}}),
    ("storage.k8s.io", "csistoragecapacities", {"storageClassName": "s", "nodeTopology": {}}),
    (
        "storage.k8s.io",
        "volumeattachments",
        {
            "spec": {
                "attacher": "d",
                "nodeName": "n",
                "source": {"inlineVolumeSpec": {"csi": {"driver": "d", "volumeHandle": "h"}}},
            }
        },
    ),
    ("networking.k8s.io", "ingressclasses", {"spec": {"controller": "example.com/c"}}),
    ("networking.k8s.io", "ingresses", {"spec": {"rules": [{"host": "a.example.com"}]}}),
    ("networking.k8s.io", "networkpolicies", {"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}),
    ("policy", "poddisruptionbudgets", {"spec": {"selector": {}, "minAvailable": 1}}),
    (
        "discovery.k8s.io",
        "endpointslices",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]},
    ),
    ("rbac.authorization.k8s.io", "clusterroles", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}),
    (
        "scheduling.k8s.io",
        "podgroups",
        {"spec": {"podGroupTemplateRef": None, "schedulingPolicy": {"gang": {"minCount": 2}}}},
    ),
    (
        "scheduling.k8s.io",
        "workloads",
        {"spec": {"podGroupTemplates": [{"name": "g", "schedulingPolicy": {"basic": {}}}]}},
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
        {
            "spec": {
                "matchConstraints": {"resourceRules": _RULES},
                "validations": [{"expression": "true"}],
            }
        },
    ),
    (
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        {
            "webhooks": [
                {
                    "name": "a.example.com",
                    "rules": _RULES,
                    "clientConfig": {"url": "https://a.example.com"},
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                }
            ]
        },
    ),
]


def _add_empty(node: Node, value: Any, skipped: Sequence[str] = ()) -> int:
    """Add an empty value for each absent list and map that is not a pointer, and return their number."""
    if isinstance(node, ListNode):
        return sum(_add_empty(node.item, one) for one in value)
    if isinstance(node, MapNode):
        return sum(_add_empty(node.value, one) for one in value.values())
    if not isinstance(node, Struct):
        return 0
    added = 0
    for name, field in node.fields.items():
        if name in skipped:
            continue
        if value.get(name) is not None:
            added += _add_empty(field.node, value[name])
        elif not field.pointer and isinstance(field.node, ListNode | MapNode):
            value[name] = [] if isinstance(field.node, ListNode) else {}
            added += 1
    return added


async def _create(
    client: httpx.AsyncClient, kind: Kind, name: str, body: JsonObject
) -> tuple[str, JsonObject]:
    version = kind.storage_version
    prefix = f"/apis/{kind.group}/{version}" if kind.group else f"/api/{version}"
    path = f"{prefix}/namespaces/default/{kind.plural}" if kind.namespaced else f"{prefix}/{kind.plural}"
    sent = {
        "apiVersion": f"{kind.group}/{version}" if kind.group else version,
        "kind": kind.kind,
        "metadata": {"name": name},
        **body,
    }
    answer = await client.post(path, json=sent)
    assert answer.status_code == 201, answer.text
    return f"{path}/{name}", answer.json()


def _empties(kind: Kind, version: str, obj: JsonObject) -> int:
    """Add empty values wherever a request may have them, and return their number."""
    added = _add_empty(object_type(kind, version), obj, ("metadata", "status"))
    if kind.plural == "resourceslices":
        # Upstream rejects even an empty list in one of the two fields if the other field is set.
        obj["spec"].pop("sharedCounters", None)
    return added


@pytest.mark.parametrize("version", VERSIONS)
async def test_empty_lists_and_maps_change_nothing(tmp_path: Path, version: Version) -> None:
    gates = FeatureGates(version, **{name: True for name in _GATES if name in release(version).gates})
    registry = catalog.registry("api/all=true", gates)
    kinds = {(kind.group, kind.plural): kind for kind in registry}
    config = Config(port=0, data=tmp_path, database=IN_MEMORY, runtime_config="api/all=true", features=gates)
    async with (
        ApiServer(config) as server,
        httpx.AsyncClient(base_url=server.url, timeout=30) as client,
    ):
        added = 0
        for number, (group, plural, body) in enumerate(_SAMPLES):
            if group == "scheduling.k8s.io" and version < V1_36:
                # Pod groups are new in 1.36, and workloads had other fields before.
                continue
            kind = kinds[(group, plural)]
            path, stored = await _create(client, kind, f"x{number}", body)
            before = stored["metadata"]
            for served in kind.versions:
                if served == "v1beta1" and "firstAvailable" in str(body):
                    # Upstream treats even an empty list next to the alternatives as a request of its own.
                    continue
                versioned = path.replace(f"/{kind.storage_version}/", f"/{served}/", 1)
                sent = (await client.get(versioned)).json()
                added += _empties(kind, served, sent)
                answer = await client.put(versioned, json=sent)
                assert answer.status_code == 200, f"{plural} {served}: {answer.text}"
                after = answer.json()["metadata"]
                assert after.get("generation") == before.get("generation"), f"{plural} {served}"
                assert after["resourceVersion"] == before["resourceVersion"], f"{plural} {served}"
    assert added > 100


_PATCHES = [
    ("resource.k8s.io", "resourceclaims", {"spec": {"devices": {"constraints": [], "config": []}}}),
    ("batch", "jobs", {"spec": {"template": {"spec": {"tolerations": [], "nodeSelector": {}}}}}),
    ("apps", "deployments", {"spec": {"selector": {"matchLabels": {"a": "b"}, "matchExpressions": []}}}),
]
_BODIES: dict[str, JsonObject] = {"resourceclaims": _DEVICES, "jobs": _JOB, "deployments": _WORKLOAD}


@pytest.mark.parametrize(("group", "plural", "change"), _PATCHES, ids=lambda one: str(one)[:20])
@pytest.mark.parametrize("form", ["merge-patch+json", "strategic-merge-patch+json"])
async def test_patches_with_empty_lists_and_maps_change_nothing(
    client: httpx.AsyncClient, group: str, plural: str, change: JsonObject, form: str
) -> None:
    kind = next(one for one in catalog.registry() if (one.group, one.plural) == (group, plural))
    path, stored = await _create(client, kind, "x", {"spec": _BODIES[plural]})
    headers = {"content-type": f"application/{form}"}
    answer = await client.patch(path, json=change, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata"] == stored["metadata"]


@each_case(("group", "plural", "change"), _PATCHES, ids=lambda one: str(one)[:20])
async def test_applying_empty_lists_and_maps_twice_changes_nothing(
    client: httpx.AsyncClient, group: str, plural: str, change: JsonObject
) -> None:
    kind = next(one for one in catalog.registry() if (one.group, one.plural) == (group, plural))
    path, stored = await _create(client, kind, "x", {"spec": _BODIES[plural]})
    spec = _merge(_BODIES[plural], change["spec"])
    applied = {"apiVersion": stored["apiVersion"], "kind": kind.kind, "metadata": {"name": "x"}, "spec": spec}
    headers = {"content-type": "application/apply-patch+yaml"}
    url = f"{path}?fieldManager=me&force=true"
    answers = [await client.patch(url, json=applied, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200], answers[0].text
    first, second = (answer.json()["metadata"] for answer in answers)
    assert first == second
    assert first.get("generation") == stored["metadata"].get("generation")


def _merge(left: JsonObject, right: JsonObject) -> JsonObject:
    """Return `left` with the members of `right`, also in the maps that both have."""
    both = {key: _merge(left[key], value) for key, value in right.items() if isinstance(left.get(key), dict)}
    return {**left, **right, **both}
