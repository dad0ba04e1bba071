"""Columns of services, endpoints, ingresses and network policies (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.cells import NONE, UNKNOWN, labels_text, selector_text, shorten_list
from dra_apiserver.common.objectcells import age, name, part


def _ingress(obj: JsonObject) -> str:
    points = part(part(obj, "status"), "loadBalancer").get("ingress") or ()
    return ",".join(sorted({one.get("ip") or one.get("hostname") or "" for one in points} - {""}))


def _external(obj: JsonObject) -> str:
    spec = part(obj, "spec")
    given = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or NONE
        case "LoadBalancer":
            balanced = _ingress(obj)
            return ",".join(([balanced] if balanced else []) + given) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return UNKNOWN


def service(obj: JsonObject, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    ports = [
        f"{one.get('port', 0)}{':' + str(one['nodePort']) if one.get('nodePort') else ''}/{one.get('protocol', '')}"
        for one in spec.get("ports") or ()
    ]
    cluster = spec.get("clusterIP") or NONE
    cells = [name(obj), spec.get("type", ""), cluster, _external(obj), ",".join(ports) or NONE]
    return [*cells, age(obj, now), labels_text(spec.get("selector"))]


def endpoints(obj: JsonObject, now: datetime) -> list[Any]:
    listed = []
    for subset in obj.get("subsets") or ():
        addresses = [one.get("ip", "") for one in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        if not ports:
            listed += addresses
        for port in ports:
            listed += [f"[{ip}]:{port['port']}" if ":" in ip else f"{ip}:{port['port']}" for ip in addresses]
    return [name(obj), shorten_list(listed, NONE), age(obj, now)]


def ingress(obj: JsonObject, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    points = part(part(obj, "status"), "loadBalancer").get("ingress") or ()
    address = ",".join(sorted({one.get("ip") or one.get("hostname") or "" for one in points} - {""}))
    ports = "80, 443" if spec.get("tls") else "80"
    return [
        name(obj),
        spec.get("ingressClassName") or NONE,
        shorten_list(hosts, "*"),
        address,
        ports,
        age(obj, now),
    ]


def ingress_class(obj: JsonObject, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    reference = part(spec, "parameters")
    parameters = NONE
    if reference:
        group = f".{reference['apiGroup']}" if reference.get("apiGroup") else ""
        parameters = f"{reference.get('kind', '')}{group}/{reference.get('name', '')}"
    return [name(obj), spec.get("controller", ""), parameters, age(obj, now)]


def network_policy(obj: JsonObject, now: datetime) -> list[Any]:
    return [name(obj), selector_text(part(obj, "spec").get("podSelector")), age(obj, now)]


def endpoint_slice(obj: JsonObject, now: datetime) -> list[Any]:
    ports = [str(one.get("port") or one.get("name") or "*") for one in obj.get("ports") or ()]
    addresses = [text for one in obj.get("endpoints") or () for text in one.get("addresses") or ()]
    return [
        name(obj),
        obj.get("addressType", ""),
        shorten_list(ports),
        shorten_list(addresses),
        age(obj, now),
    ]


def service_cidr(obj: JsonObject, now: datetime) -> list[Any]:
    return [name(obj), ",".join(part(obj, "spec").get("cidrs") or ()), age(obj, now)]


def ip_address(obj: JsonObject, now: datetime) -> list[Any]:
    parent = part(part(obj, "spec"), "parentRef")
    texts = [parent.get(key, "") for key in ("group", "resource", "namespace", "name")]
    return [name(obj), "/".join(text for text in texts if text).lower()]
