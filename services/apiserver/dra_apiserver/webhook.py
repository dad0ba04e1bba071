"""Call webhooks: their address, their CA, and Go's error messages (apiserver's util/webhook)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import errno
import functools
import random
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import orjson
from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject

from dra_apiserver.api import Api
from dra_apiserver.errors import quote
from dra_apiserver.schema.values import json_type

if TYPE_CHECKING:
    import httpx


# With this gate, upstream chooses an endpoint for each request; without it, for each connection.
_BALANCES = "WebhookRoundTripLoadBalancing"
_SERVICE_LABEL = "kubernetes.io/service-name"
_AGENT = "kube-apiserver-admission"
_TYPE_META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_SHOWN_BODY = 2048
_ERRNO = {
    errno.ECONNREFUSED: "connection refused",
    errno.EHOSTUNREACH: "no route to host",
    errno.ENETUNREACH: "network is unreachable",
}


class CallError(Exception):
    """The webhook was not reached, or its response is invalid. The message is Go's."""


class Calls:
    """The connections to webhooks, one pool for each certificate authority."""

    def __init__(self, api: Api, choose: Callable[[list[str]], str] = random.choice) -> None:
        self._api = api
        self._choose = choose
        self._clients: dict[bytes, httpx.AsyncClient] = {}
        # The chosen address of each service, with the name of its port.
        self._chosen: dict[tuple[str, str, str], str] = {}

    async def close(self) -> None:
        """Close the connections."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    async def post(self, config: JsonObject, body: JsonObject, seconds: int) -> JsonObject:
        """Return the response of the webhook with this clientConfig.

        Raises:
            CallError: there is no response, or it is not an object.
        """
        service = config.get("service")
        if service is None:
            shown = url = config.get("url", "")
            name = urlsplit(url).hostname or ""
        else:
            port = service.get("port") or 443
            name = f"{service['name']}.{service['namespace']}.svc"
            path = (service.get("path") or "").strip("/")
            shown = f"https://{name}:{port}/{path}"
            url = ""
        timeout = f"?timeout={seconds}s"
        try:
            if service is not None:
                url = f"https://{self._resolve(service, port)}/{path}"
            async with asyncio.timeout(seconds):
                answer = await self._client(config.get("caBundle") or "").post(
                    url + timeout,
                    content=dumps(body),
                    headers={
                        "Accept": "application/json, */*",
                        "Content-Type": "application/json",
                        "Host": urlsplit(shown).netloc,
                        "User-Agent": _AGENT,
                    },
                    extensions={"sni_hostname": name},
                )
        except TimeoutError:
            raise CallError(f'Post "{shown}{timeout}": context deadline exceeded') from None
        except _Unresolved as error:
            raise CallError(f'Post "{shown}{timeout}": {error}') from None
        except Exception as error:
            raise CallError(f'Post "{shown}{timeout}": {_reason(error, url)}') from None
        return _object(answer)

    def _client(self, bundle: str) -> httpx.AsyncClient:
        # Imported here because only clusters with webhooks need it.
        import httpx

        try:
            pem = base64.b64decode(bundle)
        except (binascii.Error, ValueError):
            pem = b""
        if not pem.strip():
            pem = b""
        client = self._clients.get(pem)
        if client is None:
            client = self._clients[pem] = httpx.AsyncClient(
                verify=_trust(pem), timeout=None, trust_env=False, follow_redirects=False
            )
        return client

    def _resolve(self, service: JsonObject, port: int) -> str:
        """Return the service's address: its external name, or an address in one of its EndpointSlices.

        There is no cluster network, so the service's own IP cannot be reached.
        """
        name, namespace = service["name"], service["namespace"]
        found = self._api.lookup("", "services", namespace, name)
        if found is None:
            raise _Unresolved(f"service {quote(name)} not found")
        spec = found.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return _join_host_port(spec.get("externalName", ""), port)
        chosen = next((one for one in spec.get("ports") or () if one.get("port") == port), None)
        if chosen is None:
            raise _Unresolved(f"no service port {port} found for service {quote(name)}")
        addresses: list[str] = []
        for data in self._api.listing("discovery.k8s.io", "endpointslices", namespace):
            slice_ = orjson.loads(data)
            if (slice_["metadata"].get("labels") or {}).get(_SERVICE_LABEL) == name:
                addresses += _list_addresses(slice_, chosen)
        if addresses:
            return self._balance((namespace, name, chosen.get("name") or ""), addresses)
        if spec.get("clusterIP") == "None":
            raise _Unresolved('cannot route to service with ClusterIP "None"')
        raise _Unresolved(f"no endpoints available for service {quote(name)}")

    def _balance(self, service: tuple[str, str, str], addresses: list[str]) -> str:
        """Return one of the service's addresses.

        Without the gate, all requests use the same address while it is ready, as upstream reuses an open
        connection.
        """
        known = self._chosen.get(service)
        if known in addresses and not self._api.features.enabled(_BALANCES):
            return known
        found = self._chosen[service] = self._choose(addresses)
        return found


class _Unresolved(Exception):
    pass


def _list_addresses(slice_: JsonObject, port: JsonObject) -> list[str]:
    """Return the ready addresses in the slice that serve the service's port."""
    ports = [one for one in slice_.get("ports") or () if (one.get("name") or "") == (port.get("name") or "")]
    if not ports or not ports[0].get("port"):
        return []
    return [
        _join_host_port(endpoint["addresses"][0], ports[0]["port"])
        for endpoint in slice_.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False and endpoint.get("addresses")
    ]


def _join_host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@functools.lru_cache(maxsize=64)
def _trust(pem: bytes) -> ssl.SSLContext:
    if not pem:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with contextlib.suppress(ssl.SSLError, ValueError):
        # Data that is not a certificate adds no trust.
        context.load_verify_locations(cadata=pem.decode("ascii", "replace"))
    return context


def _reason(error: BaseException, url: str) -> str:
    """Return Go's message for a failed request."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ssl.SSLCertVerificationError):
            return f"tls: failed to verify certificate: x509: {_distrust(found)}"
        if isinstance(found, ssl.SSLError) and found.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
            return "http: server gave HTTP response to HTTPS client"
        if isinstance(found, OSError) and found.errno in _ERRNO:
            return f"dial tcp {urlsplit(url).netloc}: connect: {_ERRNO[found.errno]}"
        found = found.__cause__ or found.__context__
    return "EOF" if type(error).__name__ == "RemoteProtocolError" else str(error) or type(error).__name__


def _distrust(error: ssl.SSLCertVerificationError) -> str:
    message = error.verify_message
    if error.verify_code in (18, 19, 20, 21):
        return "certificate signed by unknown authority"
    if "expired" in message:
        return "certificate has expired or is not yet valid"
    if "mismatch" in message:
        # Go names the host of the certificate. OpenSSL does not.
        return (
            f"certificate is valid for other names, not {message.rpartition('for ')[2].strip(chr(39) + '.')}"
        )
    return message


def _object(answer: httpx.Response) -> JsonObject:
    plain = answer.headers.get("content-type", "").startswith("text/")
    text = answer.text[:_SHOWN_BODY].strip() if plain else "unknown"
    if answer.status_code >= 300:
        raise CallError(_failure(answer.status_code, text))
    if not answer.content:
        kind = answer.headers.get("content-type", "")
        raise CallError(f"0-length response with status code: {answer.status_code} and content type: {kind}")
    try:
        found = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        # client-go then parses the body as YAML, in which plain text is valid.
        found = ""
    if not isinstance(found, dict):
        problem = f"json: cannot unmarshal {json_type(found)} into Go value of type {_TYPE_META}"
        raise CallError(f"couldn't get version/kind; json parse error: {problem}")
    return found


# client-go's messages for error responses (apimachinery's NewGenericServerResponse).
_FAILURES = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


def _failure(code: int, text: str) -> str:
    if code in _FAILURES:
        return _FAILURES[code]
    if code in (403, 406, 415):
        return text
    if code >= 500:
        return f"an error on the server ({quote(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"
