"""Warnings of endpoints, ingresses, services and network policies (their strategies' WarningsOnCreate and
WarningsOnUpdate).
"""

from __future__ import annotations

from collections.abc import Iterator

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.addresswarnings import address_warnings, range_warnings
from dra_apiserver.common.warnings import annotations_of, spec_of

_INGRESS_CLASS = "kubernetes.io/ingress.class"


def endpoints(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    for number, subset in enumerate(obj.get("subsets") or ()):
        for field in ("addresses", "notReadyAddresses"):
            for index, address in enumerate(subset.get(field) or ()):
                path = f"subsets[{number}].{field}[{index}].ip"
                yield from address_warnings(path, address.get("ip", ""))


def endpoint_slice(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if obj.get("addressType") == "FQDN":
        if old is None:
            yield "spec.addressType: FQDN endpoints are deprecated"
        return
    for number, endpoint in enumerate(obj.get("endpoints") or ()):
        for index, address in enumerate(endpoint.get("addresses") or ()):
            yield from address_warnings(f"endpoints[{number}].addresses[{index}]", address)


def ingress(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if old is None and _INGRESS_CLASS in annotations_of(obj) and spec_of(obj).get("ingressClassName") is None:
        yield f"annotation \"{_INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"


def load_balancer(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    balancer = (obj.get("status") or {}).get("loadBalancer") or {}
    for index, ingress in enumerate(balancer.get("ingress") or ()):
        yield from address_warnings(f"status.loadBalancer.ingress[{index}]", ingress.get("ip", ""))


def network_policy(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    for rules, peers in (("ingress", "from"), ("egress", "to")):
        for number, rule in enumerate(spec_of(obj).get(rules) or ()):
            for index, peer in enumerate(rule.get(peers) or ()):
                block, path = peer.get("ipBlock") or {}, f"spec.{rules}[{number}].{peers}[{index}].ipBlock"
                yield from range_warnings(f"{path}.cidr", block.get("cidr", ""))
                for position, value in enumerate(block.get("except") or ()):
                    yield from range_warnings(f"{path}.except[{position}]", value)
