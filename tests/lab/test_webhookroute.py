"""Test that webhooks of a Service are called at a process on this machine."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_lab.webhookroute import Address, parse_url, route
from dra_shared.client.errors import NotFound
from dra_shared.client.rest import Client
from dra_shared.errors import UserError

from tests.apiserver.kinds.admissionregistration.dynamic.hook import Hook

_CORE = "/api/v1/namespaces/default"
_SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_SERVICE = {
    "metadata": {"name": "operator-webhook"},
    "spec": {"selector": {"app": "operator"}, "ports": [{"name": "https", "port": 443, "targetPort": 9443}]},
}
_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
_WEBHOOK = {
    "metadata": {"name": "operator"},
    "webhooks": [
        {
            "name": "v.example.com",
            "clientConfig": {
                "service": {"namespace": "default", "name": "operator-webhook", "path": "/check"}
            },
            "rules": [_RULE],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}
_POD_SLICE = {
    "metadata": {"name": "of-pods", "labels": {"kubernetes.io/service-name": "operator-webhook"}},
    "addressType": "IPv4",
    "ports": [{"name": "https", "port": 9443}],
    "endpoints": [{"addresses": ["10.0.0.7"]}],
}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    config = Config(data=tmp_path, port=0, database=IN_MEMORY)
    async with ApiServer(config) as server, Client(server.url) as opened:
        yield opened


async def _send(client: Client, method: str, path: str, body: Any = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    response = await client.raw(method, path, content=content)
    assert response.status_code < 300, response.text
    return response.json()


async def test_webhooks_of_a_service_are_called_with_a_certificate_of_its_own(
    client: Client, tmp_path: Path
) -> None:
    await _send(client, "POST", f"{_CORE}/services", _SERVICE)
    await _send(client, "POST", _SLICES, _POD_SLICE)
    await _send(client, "POST", _WEBHOOKS, _WEBHOOK)
    folder = tmp_path / "certificates"
    # Route to a placeholder port first, only to create the certificate: the webhook needs the certificate when
    # it starts, and its port is not known before that.
    await route(client, "default", "operator-webhook", Address("127.0.0.1", 1), folder)
    async with Hook(folder / "tls.crt", folder / "tls.key") as hook:
        address = parse_url(f"https://localhost:{hook.port}")
        done = await route(client, "default", "operator-webhook", address, folder)
        assert done == [
            f"service/operator-webhook is at 127.0.0.1:{hook.port}",
            f"validatingwebhookconfigurations/operator trusts {folder / 'ca.crt'}",
        ]
        await _send(client, "POST", f"{_CORE}/configmaps", {"metadata": {"name": "c"}})
        assert hook.paths == ["/check?timeout=10s"]
    slices = await _send(
        client, "GET", f"{_SLICES}?labelSelector=kubernetes.io/service-name=operator-webhook"
    )
    assert [one["endpoints"][0]["addresses"] for one in slices["items"]] == [["127.0.0.1"]]
    service = await _send(client, "GET", f"{_CORE}/services/operator-webhook")
    assert "selector" not in service["spec"]


async def test_the_routed_service_must_exist_and_belong_to_a_webhook(client: Client) -> None:
    address = Address("127.0.0.1", 9443)
    with pytest.raises(NotFound, match='services "operator-webhook" not found'):
        await route(client, "default", "operator-webhook", address, None)
    await _send(client, "POST", f"{_CORE}/services", _SERVICE)
    with pytest.raises(UserError, match="no CustomResourceDefinition refers to the service"):
        await route(client, "default", "operator-webhook", address, None)
    other = json.loads(json.dumps(_WEBHOOK))
    other["webhooks"][0]["clientConfig"]["service"]["port"] = 444
    await _send(client, "POST", _WEBHOOKS, other)
    with pytest.raises(UserError, match="has no port 444, at which it is called"):
        await route(client, "default", "operator-webhook", address, None)


def test_a_route_url_with_more_than_host_and_port_is_rejected() -> None:
    assert parse_url("https://127.0.0.1:9443") == Address("127.0.0.1", 9443)
    assert parse_url("https://[::1]/") == Address("::1", 443)
    assert (Address("::1", 1).family, Address("example.com", 1).family) == ("IPv6", "FQDN")
    for wrong in ("http://127.0.0.1:9443", "127.0.0.1:9443", "https://127.0.0.1:9443/convert"):
        with pytest.raises(ValueError, match="is not the address of a webhook"):
            parse_url(wrong)
