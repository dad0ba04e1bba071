"""Route the API server's calls of a Service's webhooks to a process on this machine."""

import base64
import datetime
import ipaddress
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dra_shared.client.errors import from_response
from dra_shared.client.rest import Client
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject

from dra_lab.certificates import Authority

_CONFIGURATIONS = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
)
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SLICES = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"
_SERVICE_LABEL = "kubernetes.io/service-name"
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_MANAGER = "dralab-webhook"
_DEFAULT_PORT = 443


@dataclass(frozen=True)
class Address:
    """The host and port at which a webhook listens."""

    host: str
    port: int

    @property
    def family(self) -> str:
        """The address type of an EndpointSlice."""
        try:
            return f"IPv{ipaddress.ip_address(self.host).version}"
        except ValueError:
            return "FQDN"


def parse_url(url: str) -> Address:
    """Return the address in the URL of a webhook.

    Raises:
        ValueError: it is not an https URL without a path.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError(f"{url!r} is not the address of a webhook, such as https://127.0.0.1:9443")
    host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname
    return Address(host, parts.port or _DEFAULT_PORT)


class _Owner:
    """A webhook configuration or a CustomResourceDefinition with webhooks that call the Service."""

    def __init__(self, path: str, obj: JsonObject, clients: list[JsonObject]) -> None:
        self._path = path
        self._obj = obj
        self.clients = clients

    @property
    def url(self) -> str:
        """The path of the object."""
        return f"{self._path}/{self._obj['metadata']['name']}"

    def __str__(self) -> str:
        return "/".join(self.url.split("/")[-2:])

    def trust(self, authority: str) -> bytes:
        """Return the object with the authority in its webhooks' configurations."""
        for client in self.clients:
            client["caBundle"] = base64.b64encode(authority.encode()).decode()
        return json.dumps(self._obj).encode()


async def route(
    client: Client, namespace: str, service: str, address: Address, certificates: Path | None
) -> list[str]:
    """Have the API server call the webhooks of a Service at the address. Return what was done, a line each.

    ``certificates`` is a folder that gets a certificate for the Service. The webhooks' configurations then trust
    its authority. If ``certificates`` is None, the webhook has its own certificate.

    Raises:
        UserError: no webhook refers to the Service, or the folder cannot be used.
        ApiError: there is no such Service, or the API server rejects a change.
    """
    place = f"/api/v1/namespaces/{namespace}/services/{service}"
    found = await _request(client, "GET", place)
    owners = [owner async for owner in _find_owners(client, namespace, service)]
    if not owners:
        raise UserError(
            f"no webhook configuration and no CustomResourceDefinition refers to the service {namespace}/{service}"
        )
    wanted = {one["service"].get("port", _DEFAULT_PORT) for owner in owners for one in owner.clients}
    ports = [port for port in found["spec"].get("ports") or () if port["port"] in wanted]
    if not ports:
        shown = ", ".join(map(str, sorted(wanted)))
        raise UserError(f"the service {namespace}/{service} has no port {shown}, at which it is called")
    await _replace_slices(client, namespace, service, found, ports, address)
    done = [f"service/{service} is at {address.host}:{address.port}"]
    if certificates is not None:
        authority = _write_certificates(certificates, namespace, service, address)
        for owner in owners:
            await _request(client, "PUT", owner.url, owner.trust(authority))
            done.append(f"{owner} trusts {certificates / 'ca.crt'}")
    return done


async def _find_owners(client: Client, namespace: str, service: str) -> AsyncIterator[_Owner]:
    for path in (*_CONFIGURATIONS, _DEFINITIONS):
        for obj in (await _request(client, "GET", path))["items"]:
            clients = [one for one in _clients(obj) if _is_for(one, namespace, service)]
            if clients:
                yield _Owner(path, obj, clients)


def _clients(obj: JsonObject) -> Iterator[JsonObject]:
    """Yield the client configurations in a webhook configuration or a CustomResourceDefinition."""
    for webhook in obj.get("webhooks") or ():
        yield webhook.get("clientConfig") or {}
    conversion = (obj.get("spec") or {}).get("conversion") or {}
    yield (conversion.get("webhook") or {}).get("clientConfig") or {}


def _is_for(config: JsonObject, namespace: str, service: str) -> bool:
    found = config.get("service") or {}
    return (found.get("namespace"), found.get("name")) == (namespace, service)


async def _replace_slices(
    client: Client,
    namespace: str,
    service: str,
    obj: JsonObject,
    ports: list[JsonObject],
    address: Address,
) -> None:
    """Give the Service one EndpointSlice with the address."""
    if obj["spec"].get("selector"):
        # Without a selector, the controller does not add the addresses of pods again.
        place = f"/api/v1/namespaces/{namespace}/services/{service}"
        await _request(client, "PATCH", place, b'{"spec":{"selector":null}}')
    slices = _SLICES.format(namespace)
    listed = await _request(client, "GET", slices, params={"labelSelector": f"{_SERVICE_LABEL}={service}"})
    for old in listed["items"]:
        await _request(client, "DELETE", f"{slices}/{old['metadata']['name']}")
    body = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{service}-",
            "labels": {_SERVICE_LABEL: service, _MANAGED_BY: _MANAGER},
        },
        "addressType": address.family,
        "ports": [{"name": port.get("name", ""), "port": address.port, "protocol": "TCP"} for port in ports],
        "endpoints": [{"addresses": [address.host], "conditions": {"ready": True}}],
    }
    await _request(client, "POST", slices, json.dumps(body).encode())


def _write_certificates(folder: Path, namespace: str, service: str, address: Address) -> str:
    """Write tls.crt and tls.key for the Service to the folder, and return the authority that signed them."""
    authority = Authority.load_or_create(folder, datetime.datetime.now(datetime.UTC))
    name = f"{service}.{namespace}"
    hosts = (f"{name}.svc", name, f"{name}.svc.cluster.local", address.host)
    authority.server(f"{name}.svc", hosts).write(folder / "tls")
    return authority.pem


async def _request(
    client: Client, method: str, path: str, content: bytes | None = None, params: dict[str, str] | None = None
) -> JsonObject:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    response = await client.raw(method, path, params=params, content=content, content_type=kind)
    body: JsonObject = response.json()
    if response.status_code >= 300:
        raise from_response(response.status_code, response.content)
    return body
