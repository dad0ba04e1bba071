"""Test addresses and node ports of services through HTTP."""

from ipaddress import ip_address, ip_network
from typing import Any

import httpx
import pytest

SERVICES = "/api/v1/namespaces/default/services"
_IN_USE = "provided port is already allocated"


def service(name: str, **spec: Any) -> dict[str, Any]:
    spec = {"selector": {"app": "x"}, "ports": [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


async def test_each_service_gets_a_different_address(client: httpx.AsyncClient) -> None:
    specs = [(await client.post(SERVICES, json=service(f"s{number}"))).json()["spec"] for number in range(5)]
    found = {spec["clusterIP"] for spec in specs}
    assert len(found) == 5
    assert all(ip_address(one) in ip_network("10.96.0.0/16") for one in found)
    first = specs[0]
    assert first["clusterIPs"] == [first["clusterIP"]]
    assert (first["ipFamilies"], first["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")


async def test_a_requested_address_is_assigned_once(client: httpx.AsyncClient) -> None:
    assert (await client.post(SERVICES, json=service("a", clusterIP="10.96.7.7"))).status_code == 201
    answer = (await client.post(SERVICES, json=service("b", clusterIP="10.96.7.7"))).json()
    assert answer["message"] == (
        'Service "b" is invalid: spec.clusterIPs: Invalid value: ["10.96.7.7"]: failed to allocate IP 10.96.7.7: '
        "provided IP is already allocated"
    )
    await client.delete(f"{SERVICES}/a")
    assert (await client.post(SERVICES, json=service("b", clusterIP="10.96.7.7"))).status_code == 201


async def test_an_address_of_another_range_is_refused(client: httpx.AsyncClient) -> None:
    answer = (await client.post(SERVICES, json=service("a", clusterIP="1.2.3.4"))).json()
    assert answer["message"].endswith(
        "failed to allocate IP 1.2.3.4: the provided IP (1.2.3.4) is not in the valid range. "
        "The range of valid IPs is 10.96.0.0/16"
    )


async def test_node_ports_are_allocated_kept_and_released(client: httpx.AsyncClient) -> None:
    made = (await client.post(SERVICES, json=service("a", type="NodePort"))).json()
    port = made["spec"]["ports"][0]["nodePort"]
    assert 30000 <= port <= 32767
    # An update that leaves out what was allocated keeps it.
    again = await client.put(f"{SERVICES}/a", json=service("a", type="NodePort", sessionAffinity="ClientIP"))
    assert again.status_code == 200, again.text
    assert again.json()["spec"]["ports"][0]["nodePort"] == port
    assert again.json()["spec"]["clusterIP"] == made["spec"]["clusterIP"]
    taken = service("b", type="NodePort", ports=[{"port": 80, "nodePort": port}])
    refused = await client.post(SERVICES, json=taken)
    assert refused.json()["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "message": f"Invalid value: {port}: {_IN_USE}",
            "field": "spec.ports[0].nodePort",
        }
    ]
    merge = {"content-type": "application/merge-patch+json"}
    inside = await client.patch(f"{SERVICES}/a", json={"spec": {"type": "ClusterIP"}}, headers=merge)
    assert "nodePort" not in inside.json()["spec"]["ports"][0]
    assert "externalTrafficPolicy" not in inside.json()["spec"]
    assert (await client.post(SERVICES, json=taken)).status_code == 201


async def test_a_node_port_outside_the_range_is_refused(client: httpx.AsyncClient) -> None:
    body = service("a", type="NodePort", ports=[{"port": 80, "nodePort": 80}])
    assert "The range of valid ports is 30000-32767" in (await client.post(SERVICES, json=body)).text


async def test_tcp_and_udp_of_one_port_share_a_node_port(client: httpx.AsyncClient) -> None:
    ports = [
        {"name": "t", "port": 53, "protocol": "TCP"},
        {"name": "u", "port": 53, "protocol": "UDP"},
    ]
    made = (await client.post(SERVICES, json=service("dns", type="NodePort", ports=ports))).json()
    first, second = made["spec"]["ports"]
    assert first["nodePort"] == second["nodePort"]


async def test_a_balancer_that_keeps_traffic_local_has_a_health_port(client: httpx.AsyncClient) -> None:
    body = service("lb", type="LoadBalancer", externalTrafficPolicy="Local")
    spec = (await client.post(SERVICES, json=body)).json()["spec"]
    assert spec["healthCheckNodePort"] != spec["ports"][0]["nodePort"]
    assert spec["allocateLoadBalancerNodePorts"] is True


@pytest.mark.parametrize(
    ("spec", "families", "policy"),
    [
        ({"clusterIP": "None"}, ["IPv4"], "SingleStack"),
        ({"clusterIP": "None", "selector": None}, ["IPv4", "IPv6"], "RequireDualStack"),
        ({"type": "ExternalName", "externalName": "example.com"}, None, None),
    ],
)
async def test_services_without_cluster_ip_have_ip_families(
    client: httpx.AsyncClient, spec: dict[str, Any], families: list[str] | None, policy: str | None
) -> None:
    made = (await client.post(SERVICES, json=service("a", **spec))).json()["spec"]
    assert (made.get("ipFamilies"), made.get("ipFamilyPolicy")) == (families, policy)


async def test_the_address_of_a_service_is_immutable(client: httpx.AsyncClient) -> None:
    made = (await client.post(SERVICES, json=service("a"))).json()
    patch = {"spec": {"clusterIP": "10.96.1.1"}}
    headers = {"content-type": "application/strategic-merge-patch+json"}
    answer = (await client.patch(f"{SERVICES}/a", json=patch, headers=headers)).json()
    assert answer["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "message": 'Invalid value: ["10.96.1.1"]: may not change once set',
            "field": "spec.clusterIPs[0]",
        }
    ], made


async def test_errors_of_an_invalid_service_have_the_order_of_kube_apiserver(
    client: httpx.AsyncClient,
) -> None:
    body = service("1bad", type="Foo", ports=[{"port": 99999}, {"port": 80}, {"port": 80}])
    causes = (await client.post(SERVICES, json=body)).json()["details"]["causes"]
    between = "must be between 1 and 65535, inclusive"
    supported = 'supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'
    shown = '{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}'
    assert [(cause["field"], cause["message"]) for cause in causes] == [
        ("spec.ports[0].name", "Required value"),
        ("spec.ports[0].port", f"Invalid value: 99999: {between}"),
        ("spec.ports[0].targetPort", f"Invalid value: 99999: {between}"),
        ("spec.ports[1].name", "Required value"),
        ("spec.ports[2].name", "Required value"),
        ("spec.type", f'Unsupported value: "Foo": {supported}'),
        ("spec.ports[2]", f"Duplicate value: {shown}"),
    ]


async def test_external_addresses_have_a_warning(client: httpx.AsyncClient) -> None:
    answer = await client.post(SERVICES, json=service("a", externalIPs=["1.2.3.4"]))
    assert answer.status_code == 201
    assert "spec.externalIPs is deprecated" in answer.headers["warning"]
    patch = {"spec": {"externalIPs": None}}
    headers = {"content-type": "application/merge-patch+json"}
    changed = await client.patch(f"{SERVICES}/a", json=patch, headers=headers)
    assert "externalTrafficPolicy" not in changed.json()["spec"]
