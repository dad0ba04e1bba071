"""Test a server with ``--authorization-mode RBAC``."""

from pathlib import Path

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.jsontypes import JsonObject

RBAC = "/apis/rbac.authorization.k8s.io/v1"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"
_ROLE_GROUP = "rbac.authorization.k8s.io"
DRIVER = {"kind": "ServiceAccount", "name": "driver", "namespace": "default"}
AS_DRIVER = "system:serviceaccount:default:driver"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(port=0, data=tmp_path, database=IN_MEMORY, authorization_mode="RBAC")


def rule(verbs: str, resources: str, group: str = "", names: str = "") -> JsonObject:
    made = {"verbs": verbs.split(","), "apiGroups": [group], "resources": resources.split(",")}
    return made | ({"resourceNames": names.split(",")} if names else {})


async def create(client: httpx.AsyncClient, path: str, obj: JsonObject) -> JsonObject:
    answer = await client.post(path, json=obj)
    assert answer.status_code == 201, answer.text
    found: JsonObject = answer.json()
    return found


async def give(
    client: httpx.AsyncClient, subject: JsonObject, *rules: JsonObject, namespace: str = ""
) -> None:
    """Grant the RBAC rules to the subject, in one namespace or in the whole cluster."""
    name = f"given-{subject['name']}-{namespace}"
    place = f"{RBAC}/namespaces/{namespace}/role" if namespace else f"{RBAC}/clusterrole"
    kind = "Role" if namespace else "ClusterRole"
    await create(client, f"{place}s", {"metadata": {"name": name}, "rules": list(rules)})
    reference = {"apiGroup": _ROLE_GROUP, "kind": kind, "name": name}
    await create(
        client, f"{place}bindings", {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    )


def user(name: str) -> JsonObject:
    return {"kind": "User", "name": name, "apiGroup": _ROLE_GROUP}


def under(name: str, *groups: str) -> httpx.Headers:
    return httpx.Headers([("Impersonate-User", name), *(("Impersonate-Group", group) for group in groups)])


async def driver_token(client: httpx.AsyncClient) -> httpx.Headers:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await create(client, accounts, {"metadata": {"name": "driver"}})
    answer = await create(client, f"{accounts}/driver/token", {"spec": {}})
    return httpx.Headers({"Authorization": f"Bearer {answer['status']['token']}"})


def message(answer: httpx.Response, code: int = 403) -> str:
    assert answer.status_code == code, answer.text
    text: str = answer.json()["message"]
    return text


async def test_requests_without_credentials_have_all_permissions(client: httpx.AsyncClient) -> None:
    assert (await client.get("/api/v1/pods")).status_code == 200
    assert (await client.get("/metrics")).status_code == 200


async def test_a_service_account_has_the_permissions_of_its_roles(client: httpx.AsyncClient) -> None:
    headers = await driver_token(client)
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    refused = await client.get(slices, headers=headers)
    assert message(refused) == (
        f'resourceslices.resource.k8s.io is forbidden: User "{AS_DRIVER}" cannot list resource "resourceslices" '
        'in API group "resource.k8s.io" at the cluster scope'
    )
    assert refused.json()["details"] == {"group": "resource.k8s.io", "kind": "resourceslices"}
    await give(client, DRIVER, rule("list", "resourceslices", "resource.k8s.io"))
    assert (await client.get(slices, headers=headers)).status_code == 200
    assert (await client.get(f"{slices}?watch=1&timeoutSeconds=1", headers=headers)).status_code == 403
    await client.delete(f"{RBAC}/clusterroles/given-driver-")
    assert message(await client.get(slices, headers=headers)).endswith(
        'at the cluster scope: RBAC: clusterrole.rbac.authorization.k8s.io "given-driver-" not found'
    )


async def test_a_role_applies_to_its_namespace_and_resource_names(client: httpx.AsyncClient) -> None:
    await give(client, user("bob"), rule("get,list", "pods", names="x"), namespace="default")
    bob = under("bob")
    assert (await client.get(f"{PODS}/x", headers=bob)).status_code == 404
    assert (await client.get(f"{PODS}?fieldSelector=metadata.name=x", headers=bob)).status_code == 200
    assert message(await client.get(f"{PODS}/y", headers=bob)) == (
        'pods "y" is forbidden: User "bob" cannot get resource "pods" in API group "" in the namespace "default"'
    )
    assert (await client.get(PODS, headers=bob)).status_code == 403
    assert (await client.get("/api/v1/pods?fieldSelector=metadata.name=x", headers=bob)).status_code == 403


async def test_non_resource_paths_and_unserved_resources_need_permission(client: httpx.AsyncClient) -> None:
    bob = under("bob")
    assert message(await client.get("/metrics", headers=bob)) == (
        'forbidden: User "bob" cannot get path "/metrics"'
    )
    assert message(await client.get("/apis/no.io/v1/things", headers=bob)) == (
        'things.no.io is forbidden: User "bob" cannot list resource "things" in API group "no.io" at the cluster scope'
    )
    for path in ("/healthz", "/readyz", "/livez", "/apis", "/version"):
        assert (await client.get(path, headers=bob)).status_code == 200
    assert message(await client.get("/api/v1/namespaces/default", headers=bob)).endswith(
        'in API group "" in the namespace "default"'
    )


async def test_an_unknown_token_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/v1/pods", headers={"Authorization": "Bearer nobody"})
    assert (answer.status_code, answer.json()["reason"]) == (401, "Unauthorized")


async def test_impersonation_needs_a_permission_for_the_user(client: httpx.AsyncClient) -> None:
    headers = await driver_token(client)

    async def pods(name: str) -> httpx.Response:
        return await client.get(PODS, headers=[*headers.raw, *under(name).raw])

    assert message(await pods("bob")) == (
        f'pods is forbidden: User "{AS_DRIVER}" cannot impersonate-on:user-info:list resource "pods" in API group "" '
        'in the namespace "default"'
    )
    await give(client, DRIVER, rule("impersonate", "users", names="bob"))
    assert message(await pods("bob")).startswith('pods is forbidden: User "bob" cannot list')
    # The impersonation mode that allowed the last request is tried first for later requests.
    assert message(await pods("amy")) == (
        f'users "amy" is forbidden: User "{AS_DRIVER}" cannot impersonate resource "users" in API group "" '
        "at the cluster scope"
    )


async def test_permission_to_impersonate_a_node_can_be_limited_to_a_node_and_verb(
    client: httpx.AsyncClient,
) -> None:
    headers = await driver_token(client)
    await give(
        client,
        DRIVER,
        rule("impersonate:arbitrary-node", "nodes", "authentication.k8s.io", names="n1"),
        rule("impersonate-on:arbitrary-node:list", "pods"),
    )
    await give(
        client, {"kind": "Group", "name": "system:nodes", "apiGroup": _ROLE_GROUP}, rule("list", "pods,nodes")
    )

    async def get(path: str, node: str) -> int:
        return (await client.get(path, headers=[*headers.raw, *under(f"system:node:{node}").raw])).status_code

    assert await get("/api/v1/pods", "n1") == 200
    assert await get("/api/v1/pods", "n2") == 403
    assert await get("/api/v1/nodes", "n1") == 403


@pytest.mark.parametrize("verb", ["create", "update", "patch"])
async def test_users_cannot_grant_permissions_that_they_lack(client: httpx.AsyncClient, verb: str) -> None:
    await give(client, user("bob"), rule("*", "roles", _ROLE_GROUP), rule("get", "pods"), namespace="default")
    # A user with all verbs on roles may escalate.
    await give(client, user("amy"), rule("create,update,patch", "roles", _ROLE_GROUP), rule("get", "pods"))
    roles = f"{RBAC}/namespaces/default/roles"

    async def write(who: str, *rules: JsonObject) -> httpx.Response:
        obj = {"metadata": {"name": "r"}, "rules": list(rules)}
        if verb == "create":
            return await client.post(f"{roles}?dryRun=All", json=obj, headers=under(who))
        await client.put(f"{roles}/r", json={"metadata": {"name": "r"}, "rules": []})
        if verb == "update":
            return await client.put(f"{roles}/r", json=obj, headers=under(who))
        merging = {"content-type": "application/merge-patch+json"}
        return await client.patch(f"{roles}/r", json=obj, headers={**under(who), **merging})

    assert (await write("amy", rule("get", "pods"))).is_success
    assert (await write("bob", rule("list", "secrets"))).is_success
    assert message(await write("amy", rule("get,list", "pods"))) == (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "amy" (groups=["system:authenticated"]) is attempting '
        'to grant RBAC permissions not currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["list"]}'
    )


async def test_creating_a_role_binding_needs_the_roles_permissions_or_the_verb_bind(
    client: httpx.AsyncClient,
) -> None:
    bindings = f"{RBAC}/namespaces/default/rolebindings"
    await give(client, user("bob"), rule("create", "rolebindings", _ROLE_GROUP), namespace="default")

    async def bind(role: str) -> httpx.Response:
        reference = {"apiGroup": _ROLE_GROUP, "kind": "ClusterRole", "name": role}
        obj = {"metadata": {"generateName": "b-"}, "roleRef": reference, "subjects": [user("bob")]}
        return await client.post(bindings, json=obj, headers=under("bob"))

    assert "attempting to grant RBAC permissions not currently held" in message(await bind("cluster-admin"))
    assert message(await bind("none"), 404) == 'rolebindings.rbac.authorization.k8s.io "none" not found'
    await give(client, user("bob"), rule("bind", "clusterroles", _ROLE_GROUP, names="cluster-admin"))
    assert (await bind("cluster-admin")).status_code == 201
    assert (await client.get(PODS, headers=under("bob"))).status_code == 200


async def test_a_put_that_creates_an_object_needs_the_permission_to_create(client: httpx.AsyncClient) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
    await give(client, user("bob"), rule("update,patch", "leases", "coordination.k8s.io"))
    put = await client.put(f"{leases}/l", json=body, headers=under("bob"))
    assert message(put) == 'leases.coordination.k8s.io "l" is forbidden: '
    applying = {"content-type": "application/apply-patch+yaml", **under("bob")}
    applied = await client.patch(f"{leases}/l?fieldManager=x", json=body, headers=applying)
    assert applied.status_code == 403
    assert (await client.put(f"{leases}/l", json=body)).status_code == 201


async def test_a_driver_needs_permission_to_update_the_status_of_its_devices(
    client: httpx.AsyncClient,
) -> None:
    headers = await driver_token(client)
    await give(client, DRIVER, rule("update", "resourceclaims/status", "resource.k8s.io"))
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    claim = await create(
        client, CLAIMS, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    )
    device = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    claim["status"] = {"allocation": {"devices": {"results": [{"request": "gpu", **device}]}}}
    allocating = await client.put(f"{CLAIMS}/c/status", json=claim, headers=headers)
    assert 'requires resource="resourceclaims/binding", verb="update" permission' in message(allocating, 422)
    claim = (await client.put(f"{CLAIMS}/c/status", json=claim)).json()
    claim["status"]["devices"] = [{**device, "data": {"healthy": True}}]
    telling = await client.put(f"{CLAIMS}/c/status", json=claim, headers=headers)
    assert 'requires resource="resourceclaims/driver", verb="[arbitrary-node:update]" permission' in message(
        telling, 422
    )
    leave = rule("arbitrary-node:update", "resourceclaims/driver", "resource.k8s.io", names="gpu.example.com")
    await give(client, DRIVER, leave, namespace="default")
    written = await client.put(f"{CLAIMS}/c/status", json=claim, headers=headers)
    assert written.status_code == 200
    # A user who may remove the allocation may also remove the status that drivers wrote.
    await give(
        client,
        user("bob"),
        rule("update", "resourceclaims/status,resourceclaims/binding", "resource.k8s.io"),
    )
    taken_back = {**written.json(), "status": {}}
    answer = await client.put(f"{CLAIMS}/c/status", json=taken_back, headers=under("bob"))
    assert answer.status_code == 200, answer.text


async def test_the_verb_escalate_is_authorized_for_the_role_named_in_the_path(
    client: httpx.AsyncClient,
) -> None:
    """Check that the role's name comes from the request's path. The path of a POST has none."""
    await give(
        client,
        user("bob"),
        rule("create,update,patch", "clusterroles", _ROLE_GROUP),
        rule("escalate", "clusterroles", _ROLE_GROUP, names="a,b"),
    )
    roles, head = f"{RBAC}/clusterroles", {"apiVersion": f"{_ROLE_GROUP}/v1", "kind": "ClusterRole"}

    def role(name: str) -> JsonObject:
        return {**head, "metadata": {"name": name}, "rules": [rule("get", "secrets")]}

    applying = {**under("bob"), "content-type": "application/apply-patch+yaml"}
    assert (await client.post(roles, json=role("a"), headers=under("bob"))).status_code == 403
    assert (await client.put(f"{roles}/a", json=role("a"), headers=under("bob"))).status_code == 201
    query = "fieldManager=bob"
    assert (await client.patch(f"{roles}/b?{query}", json=role("b"), headers=applying)).status_code == 201
    assert (await client.patch(f"{roles}/c?{query}", json=role("c"), headers=applying)).status_code == 403


async def test_access_reviews_report_permissions(client: httpx.AsyncClient) -> None:
    reviews = "/apis/authorization.k8s.io/v1"
    await give(client, user("bob"), rule("get", "pods"), namespace="default")
    wanted = {"verb": "get", "resource": "pods", "namespace": "default"}
    mine = await client.post(
        f"{reviews}/selfsubjectaccessreviews",
        json={"spec": {"resourceAttributes": wanted}},
        headers=under("bob"),
    )
    assert mine.json()["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "given-bob-default/default" of Role "given-bob-default" to User "bob"',
    }
    elsewhere = {"user": "bob", "resourceAttributes": {**wanted, "namespace": "other"}}
    others = await create(client, f"{reviews}/subjectaccessreviews", {"spec": elsewhere})
    assert others["status"] == {"allowed": False}
    rules = await client.post(
        f"{reviews}/selfsubjectrulesreviews", json={"spec": {"namespace": "default"}}, headers=under("bob")
    )
    assert rule("get", "pods") in rules.json()["status"]["resourceRules"]
    bad = await client.post(f"{reviews}/subjectaccessreviews", json={"spec": {"resourceAttributes": {}}})
    assert message(bad, 422) == (
        '.authorization.k8s.io "" is invalid: spec.user: Invalid value: "": '
        "at least one of user or group must be specified"
    )


async def test_authorizer_calls_in_policy_expressions_use_rbac(client: httpx.AsyncClient) -> None:
    registration = "/apis/admissionregistration.k8s.io/v1"
    expression = "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()"
    constraints = {
        "resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        ]
    }
    policy = {"matchConstraints": constraints, "validations": [{"expression": expression}]}
    await create(
        client,
        f"{registration}/validatingadmissionpolicies",
        {"metadata": {"name": "readers"}, "spec": policy},
    )
    binding = {"policyName": "readers", "validationActions": ["Deny"]}
    await create(
        client,
        f"{registration}/validatingadmissionpolicybindings",
        {"metadata": {"name": "readers"}, "spec": binding},
    )
    await give(client, user("bob"), rule("create", "configmaps"))
    maps = "/api/v1/namespaces/default/configmaps"
    refused = await client.post(maps, json={"metadata": {"name": "m"}}, headers=under("bob"))
    assert "failed expression" in message(refused, 422)
    await give(client, user("bob"), rule("get", "secrets"), namespace="default")
    allowed = await client.post(maps, json={"metadata": {"name": "m"}}, headers=under("bob"))
    assert allowed.status_code == 201
