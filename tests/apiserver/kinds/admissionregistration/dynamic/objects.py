"""Objects that the tests of policies and webhooks share."""

from typing import Any

import httpx
from dra_shared.jsontypes import JsonObject

GROUP = "/apis/admissionregistration.k8s.io/v1"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CONFIGMAP_RULE: JsonObject = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE", "DELETE"],
    "resources": ["configmaps"],
}
MERGE = {"Content-Type": "application/merge-patch+json"}


def configmap(name: str, labels: dict[str, str] | None = None, /, **data: str) -> JsonObject:
    meta = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def slice_on(name: str, node: str) -> JsonObject:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": node}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": spec,
    }


def registration(kind: str, name: str, spec: JsonObject) -> JsonObject:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


async def create(client: httpx.AsyncClient, path: str, obj: JsonObject) -> JsonObject:
    answer = await client.post(path, json=obj)
    assert answer.status_code == 201, answer.text
    found: JsonObject = answer.json()
    return found


async def create_policy(client: httpx.AsyncClient, name: str, spec: JsonObject, **binding: Any) -> None:
    """Create a policy and its binding. By default they apply to config maps, and deny."""
    constraints = {"resourceRules": [CONFIGMAP_RULE]}
    policy = {"matchConstraints": constraints, **spec}
    await create(
        client,
        f"{GROUP}/validatingadmissionpolicies",
        registration("ValidatingAdmissionPolicy", name, policy),
    )
    bound = {"policyName": name, "validationActions": ["Deny"], **binding}
    await create(
        client,
        f"{GROUP}/validatingadmissionpolicybindings",
        registration("ValidatingAdmissionPolicyBinding", name, bound),
    )
