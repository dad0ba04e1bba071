"""The targets of proxy subresources, and how to reach them (ResourceLocation in pkg/registry/core/…).

There is no pod network here: a port of a pod is reached through its node, as for port-forward.
"""

from __future__ import annotations

import asyncio
import ipaddress
import random
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import orjson
from dra_shared.jsontypes import JsonObject
from dra_shared.numerals import integer, is_digits
from dra_shared.selectors import label_selector

from dra_apiserver.api import Api
from dra_apiserver.errors import GroupResource, bad_request, not_found, quote, service_unavailable
from dra_apiserver.http import Headers
from dra_apiserver.kinds.connect.logs import node_address
from dra_apiserver.kinds.connect.tunnel import Streams, Tunnel
from dra_apiserver.target import Target

#: The header by which a kubelet that shares its port with others knows which node is meant.
NODE_HEADER = b"dralab-node"
_CONNECT_TIMEOUT = 5.0
_SCHEMES = frozenset({"", "http", "https"})
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Location:
    """The target of a proxy. With `own_host`, the request has its host name and `headers`, not the client's."""

    scheme: str
    host: str
    port: int
    connect: Callable[[], Awaitable[Streams]]
    failure: Callable[[], str] = str
    own_host: bool = False
    headers: Headers = field(default_factory=list)

    @property
    def authority(self) -> str:
        """Host and port, as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def locate(api: Api, target: Target) -> Location:
    """Return the location of the target's proxy.

    Its name may have a port and a scheme: `name:port`, `scheme:name:port`.

    Raises:
        StatusError: 400, 404, 500 or 503, there is no such location.
    """
    kind = target.kind.plural
    parts = target.name.split(":")
    # A scheme requires a port.
    scheme = parts.pop(0) if len(parts) == 3 else ""
    name, port = parts[0], parts[1] if len(parts) > 1 else ""
    if len(parts) > 2 or not name or scheme not in _SCHEMES:
        raise bad_request(f"invalid {kind[:-1]} request {quote(target.name)}")
    scheme = scheme or "http"
    if kind == "nodes":
        return _node(api, scheme, name, port)
    if kind == "pods":
        pod = api.lookup("", "pods", target.namespace, name)
        if pod is None:
            raise not_found(GroupResource("", "pods"), name)
        return _pod(api, pod, scheme, port or _first_port(pod))
    return _service(api, target, scheme, name, port)


def _node(api: Api, scheme: str, name: str, port: str) -> Location:
    address, kubelet = node_address(api, name)
    if port in {"", str(kubelet)}:
        return Location(
            "http",
            address,
            kubelet,
            lambda: _dial(address, kubelet, api.config.nodes.context()),
            own_host=True,
            headers=[(NODE_HEADER, name.encode()), *api.config.nodes.headers],
        )
    number = _number(port)
    return Location(scheme, address, number, lambda: _dial_allowed(address, number))


def _pod(api: Api, pod: JsonObject, scheme: str, port: str) -> Location:
    address = _pod_ip(pod)
    _check_address(address)
    number = _number(port) if port else 443 if scheme == "https" else 80
    meta, spec = pod["metadata"], pod["spec"]
    host, kubelet = node_address(api, spec.get("nodeName") or "")
    tunnel = Tunnel(host, kubelet, meta["namespace"], meta["name"], number, address, api.config.nodes)
    return Location(scheme, address, number, tunnel.connect, tunnel.failure)


def _service(api: Api, target: Target, scheme: str, name: str, port: str) -> Location:
    service = api.lookup("", "services", target.namespace, name)
    if is_digits(port):
        if service is None:
            raise not_found(GroupResource("", "services"), name)
        ports = (service.get("spec") or {}).get("ports") or ()
        found = next((one for one in ports if one.get("port") == integer(port)), None)
        if found is None:
            raise service_unavailable(f"no service port {port} found for service {quote(name)}")
        port = found.get("name") or ""
    subsets = _subsets(api, target.namespace, name, service)
    if not subsets:
        raise service_unavailable(f"no endpoints available for service {quote(name)}")
    random.shuffle(subsets)
    for subset in subsets:
        addresses = list(subset.get("addresses") or ())
        random.shuffle(addresses)
        for one in subset.get("ports") or ():
            if (one.get("name") or "") != port:
                continue
            for address in addresses:
                pod = _pod_of(api, target.namespace, address)
                if pod is not None:
                    return _pod(api, pod, scheme, str(one["port"]))
    raise service_unavailable(f"no endpoints available for service {quote(target.name)}")


def _subsets(api: Api, namespace: str, name: str, service: JsonObject | None) -> list[JsonObject]:
    endpoints = api.lookup("", "endpoints", namespace, name)
    if endpoints is not None:
        return list(endpoints.get("subsets") or ())
    if service is None:
        raise not_found(GroupResource("", "endpoints"), name)
    # No controller writes Endpoints here, so they are computed.
    return list(_select_pods(api, namespace, service["spec"]))


def _select_pods(api: Api, namespace: str, spec: JsonObject) -> Iterator[JsonObject]:
    if not spec.get("selector"):
        return
    selector = label_selector({"matchLabels": spec["selector"]})
    for data in api.listing("", "pods", namespace):
        pod = orjson.loads(data)
        meta, status = pod["metadata"], pod.get("status") or {}
        if not selector.matches(meta.get("labels") or {}) or not _pod_ip(pod):
            continue
        if status.get("phase") in _ENDED or meta.get("deletionTimestamp") or not _ready(spec, status):
            continue
        ports = [
            {"name": one.get("name"), "port": number}
            for one in spec.get("ports") or ()
            if (number := _container_port(pod, one.get("targetPort") or one["port"])) is not None
        ]
        target = {"kind": "Pod", "namespace": namespace, "name": meta["name"]}
        yield {"addresses": [{"ip": _pod_ip(pod), "targetRef": target}], "ports": ports}


def _ready(spec: JsonObject, status: JsonObject) -> bool:
    return bool(spec.get("publishNotReadyAddresses")) or any(
        one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ()
    )


def _container_port(pod: JsonObject, port: int | str) -> int | None:
    if isinstance(port, int):
        return port
    ports = (one for item in pod["spec"]["containers"] for one in item.get("ports") or ())
    return next((one["containerPort"] for one in ports if one.get("name") == port), None)


def _pod_of(api: Api, namespace: str, address: JsonObject) -> JsonObject | None:
    """Return the pod of an endpoint's address; None if it has none, or another pod has the address."""
    ref = address.get("targetRef") or {}
    if ref.get("namespace") != namespace:
        return None
    pod = api.lookup("", "pods", namespace, ref.get("name") or "")
    return pod if pod is not None and _pod_ip(pod) == address.get("ip") else None


def _pod_ip(pod: JsonObject) -> str:
    status = pod.get("status") or {}
    addresses = status.get("podIPs") or [{"ip": status.get("podIP")}]
    return addresses[0].get("ip") or ""


def _first_port(pod: JsonObject) -> str:
    for container in pod["spec"]["containers"]:
        if container.get("ports"):
            return str(container["ports"][0]["containerPort"])
    return ""


def _number(port: str) -> int:
    if is_digits(port) and (number := integer(port)) < 1 << 16:
        return number
    why = f"address {port}: invalid port" if is_digits(port) else f"lookup tcp/{port}: unknown port"
    raise service_unavailable(f"error trying to reach service: dial tcp: {why}")


def _check_address(address: str) -> None:
    """Reject an address on the server's own machine or link, like upstream's proxy."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        raise bad_request("address not allowed") from None
    if known.is_loopback or known.is_link_local or known.is_multicast or known.is_unspecified:
        raise bad_request("address not allowed")


async def _dial_allowed(host: str, port: int) -> Streams:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for *_, address in found:
        _check_address(str(address[0]))
    return await _dial(str(found[0][-1][0]), port)


async def _dial(address: str, port: int, tls: ssl.SSLContext | None = None) -> Streams:
    async with asyncio.timeout(_CONNECT_TIMEOUT):
        return await asyncio.open_connection(address, port, ssl=tls)
