"""Test the objects of a new cluster and those that the server derives from others."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.authorization.rules import find_uncovered
from dra_apiserver.config import Config
from dra_apiserver.kinds.rbac.bootstrap import default_rules, roles_and_bindings
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.clock import FakeClock
from dra_shared.features import FeatureGates
from dra_shared.version import V1_34, V1_35, V1_36, V1_37, Version

from tests.support.cases import each_case
from tests.support.waiting import until

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
PATIENCE = 60.0


async def names(client: httpx.AsyncClient, path: str) -> set[str]:
    return {item["metadata"]["name"] for item in (await client.get(path)).json()["items"]}


async def until_listed(client: httpx.AsyncClient, path: str, name: str, listed: bool) -> None:
    async def check() -> bool:
        return (name in await names(client, path)) is listed

    await until(check, PATIENCE, every=0.01)


async def test_the_service_of_the_api_server_is_created(client: httpx.AsyncClient) -> None:
    service = (await client.get("/api/v1/namespaces/default/services/kubernetes")).json()
    assert service["spec"]["clusterIP"] == "10.96.0.1"
    assert service["spec"]["ports"][0]["port"] == 443
    address = (await client.get(f"{ADDRESSES}/10.96.0.1")).json()
    assert address["spec"]["parentRef"] == {
        "resource": "services",
        "namespace": "default",
        "name": "kubernetes",
    }


@each_case(
    ("path", "some"),
    [
        ("/apis/scheduling.k8s.io/v1/priorityclasses", {"system-cluster-critical", "system-node-critical"}),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"cluster-admin", "edit", "view", "system:node"}),
        ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {"cluster-admin", "system:discovery"}),
        ("/apis/rbac.authorization.k8s.io/v1/roles", {"system::leader-locking-kube-scheduler"}),
        ("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", {"exempt", "probes", "catch-all"}),
        ("/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", {"exempt", "workload-low"}),
        ("/apis/networking.k8s.io/v1/servicecidrs", {"kubernetes"}),
        (API_SERVICES, {"v1.", "v1.apps", "v2.autoscaling", "v1.resource.k8s.io"}),
    ],
)
async def test_default_objects_of_a_new_cluster_are_created(
    client: httpx.AsyncClient, path: str, some: set[str]
) -> None:
    assert some <= await names(client, path)


_MERGE = {"content-type": "application/merge-patch+json"}
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


async def test_a_restart_keeps_changes_and_completes_default_roles(tmp_path: Path) -> None:
    config = Config(port=0, data=tmp_path, relaxed=True)
    role, kept = f"{_RBAC}/clusterroles/system:basic-user", f"{_RBAC}/clusterroles/system:discovery"
    binding = f"{_RBAC}/clusterrolebindings/system:discovery"
    own = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    off = {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        rules, subjects = (
            (await client.get(role)).json()["rules"],
            (await client.get(binding)).json()["subjects"],
        )
        for path, body in (
            (role, {"rules": [own]}),
            (kept, {"rules": [], "metadata": off}),
            (binding, {"subjects": [], "metadata": {"labels": {"mine": "1"}}}),
        ):
            assert (await client.patch(path, json=body, headers=_MERGE)).status_code == 200
        before = (await client.get(kept)).json()
        port = client.base_url.port or 0
    again = replace(config, port=port)
    async with ApiServer(again) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        assert (await client.get(kept)).json() == before
        given = (await client.get(role)).json()["rules"]
        assert given[0] == own
        assert not find_uncovered(given, rules)
        whole = (await client.get(binding)).json()
        assert (whole["subjects"], whole["metadata"]["labels"]["mine"]) == (subjects, "1")
        revision = (await client.get(API_SERVICES)).json()["metadata"]["resourceVersion"]
    async with ApiServer(again) as server, httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        # No object was missing, so the server only wrote its own lease.
        newest = (await client.get(API_SERVICES)).json()["metadata"]["resourceVersion"]
        assert int(newest) == int(revision) + 1


_OWN = "/api/v1/namespaces/default/services/kubernetes"
_ENDPOINTS = "/api/v1/namespaces/default/endpoints/kubernetes"
_SLICE = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
_FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"


@pytest.fixture
async def server_and_clock(tmp_path: Path) -> AsyncIterator[tuple[httpx.AsyncClient, FakeClock]]:
    """Start a server whose clock stands still, and return a client of it."""
    clock = FakeClock()
    config = Config(port=0, data=tmp_path, database=IN_MEMORY)
    async with (
        ApiServer(config, clock) as server,
        httpx.AsyncClient(base_url=server.url, timeout=30) as client,
    ):
        yield client, clock


async def test_the_service_and_endpoints_of_the_server_are_restored_in_ten_seconds(
    server_and_clock: tuple[httpx.AsyncClient, FakeClock],
) -> None:
    client, clock = server_and_clock
    port = client.base_url.port
    before = {path: (await client.get(path)).json() for path in (_OWN, _ENDPOINTS, _SLICE)}
    assert before[_OWN]["spec"]["ports"][0]["targetPort"] == port
    (subset,) = before[_ENDPOINTS]["subsets"]
    assert subset["addresses"] == [{"ip": "127.0.0.1"}]
    assert subset["ports"] == [{"name": "https", "port": port, "protocol": "TCP"}]
    for path in (*before, "/apis/networking.k8s.io/v1/servicecidrs/kubernetes"):
        assert (await client.delete(path)).status_code == 200, path
    assert (await client.get(_OWN)).status_code == 404
    await clock.advance(10)
    for path in before:
        assert (await until_there(client, path, clock))["metadata"]["uid"] != before[path]["metadata"]["uid"]
    await until_there(client, f"{ADDRESSES}/10.96.0.1", clock)
    await until_there(client, "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", clock)
    assert (await client.delete(f"{ADDRESSES}/10.96.0.1")).status_code == 200
    moved = {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]}]}
    assert (await client.patch(_ENDPOINTS, json=moved, headers=_MERGE)).status_code == 200

    async def led_back() -> bool:
        found: bool = (await client.get(_ENDPOINTS)).json()["subsets"] == [subset]
        return found

    await until(led_back, PATIENCE, clock, every=0.01)
    await until_there(client, f"{ADDRESSES}/10.96.0.1", clock)


async def test_only_flow_control_and_namespaces_are_restored_in_a_minute(
    server_and_clock: tuple[httpx.AsyncClient, FakeClock],
) -> None:
    client, clock = server_and_clock
    level, mine = f"{_FLOW}/prioritylevelconfigurations/workload-low", f"{_FLOW}/flowschemas/probes"
    gone = [
        f"{_FLOW}/flowschemas/service-accounts",
        "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
    ]
    gone.append(f"{_RBAC}/clusterroles/system:discovery")
    for path in gone:
        assert (await client.delete(path)).status_code == 200, path
    shares = {"spec": {"limited": {"nominalConcurrencyShares": 1}}}
    assert (await client.patch(level, json=shares, headers=_MERGE)).status_code == 200
    taken = {
        "metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}},
        "spec": {"matchingPrecedence": 7},
    }
    assert (await client.patch(mine, json=taken, headers=_MERGE)).status_code == 200
    await clock.advance(60)
    await until_there(client, gone[0], clock)

    async def get_repaired() -> dict[str, Any] | None:
        found: dict[str, Any] = (await client.get(level)).json()
        return found if found["spec"]["limited"]["nominalConcurrencyShares"] == 100 else None

    found = await until(get_repaired, PATIENCE, clock, every=0.01)
    assert found["metadata"]["generation"] == 3
    assert (await client.get(mine)).json()["spec"]["matchingPrecedence"] == 7
    assert [(await client.get(path)).status_code for path in gone[1:]] == [404, 404]


async def until_there(client: httpx.AsyncClient, path: str, clock: FakeClock) -> dict[str, Any]:
    """Wait until the object exists.

    Advance the clock, because the server checks its objects again only after a pause.
    """

    async def check() -> dict[str, Any] | None:
        answer = await client.get(path)
        return answer.json() if answer.status_code == 200 else None

    found: dict[str, Any] = await until(check, PATIENCE, clock, every=0.01)
    return found


async def test_every_cluster_ip_of_a_service_has_an_ip_address_object(client: httpx.AsyncClient) -> None:
    services = "/api/v1/namespaces/default/services"
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"clusterIP": "10.96.3.3", "ports": [{"port": 80}]},
    }
    assert (await client.post(services, json=body)).status_code == 201
    await until_listed(client, ADDRESSES, "10.96.3.3", True)
    await client.delete(f"{services}/s")
    await until_listed(client, ADDRESSES, "10.96.3.3", False)


async def test_an_api_service_is_created_for_each_version_of_a_custom_group(
    client: httpx.AsyncClient,
) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    assert (await client.post(definitions, json=body)).status_code == 201
    await until_listed(client, API_SERVICES, "v1.example.com", True)
    spec = (await client.get(f"{API_SERVICES}/v1.example.com")).json()["spec"]
    assert (spec["groupPriorityMinimum"], spec["versionPriority"]) == (1000, 100)
    await client.delete(f"{definitions}/foos.example.com")
    await until_listed(client, API_SERVICES, "v1.example.com", False)


def test_default_roles_have_upstreams_rules() -> None:
    made = {(obj["kind"], obj["metadata"]["name"]): obj for obj in roles_and_bindings(FeatureGates())}
    everything = made["ClusterRole", "cluster-admin"]["rules"]
    assert everything == [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]
    edit = made["ClusterRole", "edit"]
    assert edit["rules"] is None
    assert edit["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-admin"] == "true"
    assert edit["aggregationRule"] == {
        "clusterRoleSelectors": [
            {"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
        ]
    }
    binding = made["RoleBinding", "system::leader-locking-kube-scheduler"]
    assert binding["roleRef"]["kind"] == "Role"
    assert {subject["kind"] for subject in binding["subjects"]} == {"User", "ServiceAccount"}
    kinds = [kind for kind, _ in made]
    counts = {kind: kinds.count(kind) for kind in set(kinds)}
    assert counts["ClusterRole"] > 60
    assert counts["ClusterRoleBinding"] > 45


def _rules(controller: str, features: FeatureGates) -> list[str] | None:
    """Return the rules of a controller's role as `VERBS RESOURCES`, or None if there is no role."""
    found = {
        obj["kind"]: obj
        for obj in roles_and_bindings(features)
        if obj["metadata"]["name"] == f"system:controller:{controller}"
    }
    assert set(found) in (set(), {"ClusterRole", "ClusterRoleBinding"})
    if not found:
        return None
    rules = found["ClusterRole"]["rules"]
    return [f"{','.join(rule['verbs'])} {','.join(rule['resources'])}" for rule in rules]


@pytest.mark.parametrize(
    ("controller", "version", "gate"),
    [
        ("podgroup-protection-controller", V1_36, "GenericWorkload"),
        ("resourcepoolstatusrequest-controller", V1_36, "DRAResourcePoolStatus"),
        ("device-taint-eviction-controller", V1_34, "DRADeviceTaints"),
        ("kube-apiserver-serving-clustertrustbundle-publisher", V1_36, "ClusterTrustBundle"),
        ("podcertificaterequestcleaner", V1_36, "PodCertificateRequest"),
    ],
)
def test_roles_of_gated_controllers_exist_only_if_the_gates_are_enabled(
    controller: str, version: Version, gate: str
) -> None:
    assert _rules(controller, FeatureGates(version, **{gate: False})) is None
    assert _rules(controller, FeatureGates(version, **{gate: True})) is not None


@pytest.mark.parametrize(
    ("controller", "version", "gate", "rules"),
    [
        (
            "job-controller",
            V1_36,
            "WorkloadWithJob",
            ["create,get,list,patch,update,watch podgroups,workloads"],
        ),
        (
            "resource-claim-controller",
            V1_36,
            "DRAWorkloadResourceClaims",
            ["get,list,watch podgroups", "patch,update podgroups/status"],
        ),
        (
            "resource-claim-controller",
            V1_36,
            "DRAResourceClaimGranularStatusAuthorization",
            ["patch,update resourceclaims/binding"],
        ),
        (
            "device-taint-eviction-controller",
            V1_36,
            "DRADeviceTaintRules",
            ["patch,update devicetaintrules/status", "get,list,watch devicetaintrules"],
        ),
    ],
)
def test_feature_gates_add_rules_to_roles_of_controllers(
    controller: str, version: Version, gate: str, rules: list[str]
) -> None:
    without = _rules(controller, FeatureGates(version, **{gate: False}))
    with_it = _rules(controller, FeatureGates(version, **{gate: True}))
    assert without is not None
    assert with_it is not None
    assert [rule for rule in with_it if rule not in without] == rules


@pytest.mark.parametrize(
    ("controller", "gate", "rule", "versions"),
    [
        ("node-controller", "", "get,list,watch leases", {V1_37}),
        (
            "resourcepoolstatusrequest-controller",
            "DRAResourcePoolStatus",
            "get,list,watch devicetaintrules",
            {V1_37},
        ),
        # In 1.34 taint rules had no separate gate yet, so this gate adds the rule there.
        (
            "device-taint-eviction-controller",
            "DRADeviceTaints",
            "get,list,watch devicetaintrules",
            {V1_34, V1_37},
        ),
    ],
)
def test_rules_of_controller_roles_are_those_of_the_kubernetes_version(
    controller: str, gate: str, rule: str, versions: set[Version]
) -> None:
    gates = {gate: True} if gate else {}
    having = {
        version
        for version in (V1_34, V1_35, V1_36, V1_37)
        if rule in (_rules(controller, FeatureGates(version, **gates)) or ())
    }
    assert having == versions


@pytest.mark.parametrize("on", [True, False])
def test_nodes_may_read_cluster_trust_bundles_if_the_gate_is_enabled(on: bool) -> None:
    rules = default_rules("system:node", FeatureGates(V1_36, ClusterTrustBundle=on))
    assert ("clustertrustbundles" in {resource for rule in rules for resource in rule["resources"]}) is on
