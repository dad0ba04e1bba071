"""Validate EndpointSlices (`pkg/apis/discovery/validation`)."""

from __future__ import annotations

from collections.abc import Sequence

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_subdomain, label_value

from dra_apiserver.common import names
from dra_apiserver.common.addresses import check_endpoint_address, check_legacy_address, parse_address
from dra_apiserver.common.checked import CheckedStrategy
from dra_apiserver.common.objectmeta import IMMUTABLE, validate_labels
from dra_apiserver.errors import (
    FieldError,
    duplicate,
    invalid,
    json_value,
    missing_field,
    not_supported,
    too_many,
)
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.schema import same_members

_TYPES = ("FQDN", "IPv4", "IPv6")
_VERSIONS = {"IPv4": 4, "IPv6": 6}
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MOST_ENDPOINTS, _MOST_ADDRESSES, _MOST_PORTS, _MOST_HINTS, _MOST_LABELS = 1000, 100, 20000, 8, 16


class EndpointSliceStrategy(CheckedStrategy):
    """The strategy of slices. Labels count for the generation, because they name the slice's service."""

    def __init__(self) -> None:
        super().__init__(check_endpoint_slice)

    def is_new_generation(self, obj: JsonObject, old: JsonObject, ctx: Context) -> bool:
        """True if the labels or anything outside metadata changed."""
        labels, before = obj["metadata"].get("labels") or {}, old["metadata"].get("labels") or {}
        return labels != before or super().is_new_generation(obj, old, ctx)


def check_endpoint_slice(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a slice: addresses of one type, and ports. Unchanged endpoints are not validated again."""
    kind, endpoints = obj.get("addressType", ""), obj.get("endpoints") or []
    errors: list[FieldError] = []
    if not kind:
        errors.append(missing_field("addressType"))
    elif kind not in _TYPES:
        errors.append(not_supported("addressType", kind, _TYPES))
    errors += _check_ports(obj.get("ports") or (), "ports")
    if old is None or not same_members("io.k8s.api.discovery.v1.EndpointSlice", obj, old, "endpoints"):
        errors += _check_endpoints(endpoints, kind, "endpoints")
    if old is not None and kind != old.get("addressType", ""):
        errors.append(invalid("addressType", json_value(kind), IMMUTABLE))
    return errors


def _check_ports(ports: Sequence[JsonObject], path: str) -> list[FieldError]:
    if len(ports) > _MOST_PORTS:
        return [too_many(path, len(ports), _MOST_PORTS)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        at, name, protocol = f"{path}[{index}]", port.get("name") or "", port.get("protocol")
        if name:
            errors += names.label(name, f"{at}.name")
        if name in seen:
            errors.append(duplicate(f"{at}.name", name))
        seen.add(name)
        if protocol is None:
            errors.append(missing_field(f"{at}.protocol"))
        elif protocol not in _PROTOCOLS:
            errors.append(not_supported(f"{at}.protocol", protocol, _PROTOCOLS))
        if port.get("appProtocol") is not None:
            errors += names.label_name(port["appProtocol"], f"{at}.appProtocol")
    return errors


def _check_endpoints(endpoints: Sequence[JsonObject], kind: str, path: str) -> list[FieldError]:
    if len(endpoints) > _MOST_ENDPOINTS:
        return [too_many(path, len(endpoints), _MOST_ENDPOINTS)]
    errors: list[FieldError] = []
    for index, endpoint in enumerate(endpoints):
        at, addresses = f"{path}[{index}]", endpoint.get("addresses") or ()
        if not addresses:
            errors.append(missing_field(f"{at}.addresses", "must contain at least 1 address"))
        elif len(addresses) > _MOST_ADDRESSES:
            errors.append(too_many(f"{at}.addresses", len(addresses), _MOST_ADDRESSES))
        for number, address in enumerate(addresses):
            errors += _check_address(address, kind, f"{at}.addresses", number)
        if endpoint.get("nodeName") is not None:
            errors += names.subdomain(endpoint["nodeName"], f"{at}.nodeName")
        labels = endpoint.get("deprecatedTopology") or {}
        if len(labels) > _MOST_LABELS:
            errors.append(too_many(f"{at}.deprecatedTopology", len(labels), _MOST_LABELS))
        errors += validate_labels(labels, f"{at}.deprecatedTopology")
        if endpoint.get("hostname") is not None:
            errors += names.label(endpoint["hostname"], f"{at}.hostname")
        errors += _check_hints(endpoint.get("hints") or {}, f"{at}.hints")
    return errors


def _check_address(address: str, kind: str, path: str, number: int) -> list[FieldError]:
    at = f"{path}[{number}]"
    if kind == "FQDN":
        return _check_domain(address, at)
    if kind not in _VERSIONS:
        return []
    if problems := check_legacy_address(address, at):
        return problems
    found, errors = parse_address(address), []
    if found is not None and found.version != _VERSIONS[kind]:
        # Upstream's error names no single address here.
        errors.append(invalid(path, address, f"must be an {kind} address"))
    if found is not None and found.is_loopback:
        # Upstream rejects it. Here, webhooks are found through slices and run on the same machine.
        return errors
    return errors + check_endpoint_address(address, at)


def _check_domain(name: str, path: str) -> list[FieldError]:
    if not name:
        return [missing_field(path)]
    name = name.removesuffix(".")
    if problems := dns_subdomain(name):
        return [invalid(path, name, text) for text in problems]
    text = "should be a domain with at least two segments separated by dots"
    return [] if name.count(".") else [invalid(path, name, text)]


def _check_hints(hints: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("forZones", "forNodes"):
        wanted = hints.get(field) or ()
        if len(wanted) > _MOST_HINTS:
            errors.append(too_many(f"{path}.{field}", len(wanted), _MOST_HINTS))
            continue
        seen: set[str] = set()
        for index, one in enumerate(wanted):
            at, name = f"{path}.{field}[{index}].name", one.get("name", "")
            if name in seen:
                errors.append(duplicate(at, name))
            seen.add(name)
            problems = label_value(name) if field == "forZones" else dns_subdomain(name)
            errors += [invalid(at, name, text) for text in problems]
    return errors
