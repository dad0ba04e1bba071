"""Validate ingresses and network policies."""

from __future__ import annotations

from collections.abc import Iterator, Set

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_label, dns_subdomain, regex_message

from dra_apiserver.common import names
from dra_apiserver.common.addresses import check_legacy_address, check_legacy_range, parse_address
from dra_apiserver.common.labelselectors import check_label_selector
from dra_apiserver.errors import FieldError, Verbatim, forbidden_field, invalid, missing_field, not_supported
from dra_apiserver.kinds.pods.probes import check_port


def check_ingress_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate the load balancer status of an Ingress."""

    def points(ingress: JsonObject) -> list[JsonObject]:
        return ((ingress.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []

    known = {point.get("ip", "") for point in points(old)}
    errors: list[FieldError] = []
    for index, point in enumerate(points(obj)):
        at = f"status.loadBalancer.ingress[{index}]"
        if point.get("ip"):
            errors += check_legacy_address(point["ip"], f"{at}.ip", known)
        host = point.get("hostname", "")
        if host:
            errors += names.subdomain(host, f"{at}.hostname")
            if parse_address(host) is not None:
                errors.append(invalid(f"{at}.hostname", host, "must be a DNS name, not an IP address"))
    return errors


_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_IN_NO_PATH = ("//", "/./", "/../", "%2f", "%2F")
_AT_NO_END = ("/..", "/.")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_POLICY_TYPES = ("Egress", "Ingress")
_WILDCARD = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"


def check_ingress(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate an ingress."""
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    backend, rules = spec.get("defaultBackend"), spec.get("rules")
    if not rules and backend is None:
        text = "either `defaultBackend` or `rules` must be specified"
        errors.append(invalid("spec", Verbatim("null") if rules is None else rules, text))
    if backend is not None:
        errors += _check_backend(backend, "spec.defaultBackend")
    for index, rule in enumerate(rules or ()):
        errors += _check_rule(rule, f"spec.rules[{index}]")
    for index, one in enumerate(spec.get("tls") or ()):
        at = f"spec.tls[{index}]"
        for number, host in enumerate(one.get("hosts") or ()):
            errors += _check_host(host, f"{at}.hosts[{number}]")
        secret = one.get("secretName") or ""
        errors += [invalid(f"{at}.secretName", secret, text) for text in dns_subdomain(secret) if secret]
    name = spec.get("ingressClassName")
    if name is not None:
        errors += [invalid("spec.ingressClassName", name, text) for text in dns_subdomain(name)]
    return errors


def _check_host(host: str, path: str) -> list[FieldError]:
    if "*" not in host:
        return [invalid(path, host, text) for text in dns_subdomain(host)]
    if host.startswith("*.") and "*" not in host[1:] and not dns_subdomain(host[2:]):
        return []
    words = (
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
        "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
    )
    return [invalid(path, host, regex_message(words, _WILDCARD, "*.example.com"))]


def _check_rule(rule: JsonObject, path: str) -> list[FieldError]:
    host, http = rule.get("host") or "", rule.get("http")
    errors = _check_host(host, f"{path}.host") if host else []
    if http is None:
        return errors
    paths = http.get("paths") or []
    if not paths:
        errors.append(missing_field(f"{path}.http.paths"))
    for index, one in enumerate(paths):
        errors += _check_path(one, f"{path}.http.paths[{index}]")
    return errors


def _check_path(one: JsonObject, path: str) -> list[FieldError]:
    kind, where = one.get("pathType"), one.get("path") or ""
    if kind is None:
        return [missing_field(f"{path}.pathType", "pathType must be specified")]
    errors: list[FieldError] = []
    if kind in ("Exact", "Prefix"):
        if not where.startswith("/"):
            errors.append(invalid(f"{path}.path", where, "must be an absolute path"))
        if where:
            errors += [
                invalid(f"{path}.path", where, f"must not contain '{bad}'")
                for bad in _IN_NO_PATH
                if bad in where
            ]
            errors += [
                invalid(f"{path}.path", where, f"cannot end with '{bad}'")
                for bad in _AT_NO_END
                if where.endswith(bad)
            ]
    elif kind == "ImplementationSpecific":
        if where and not where.startswith("/"):
            errors.append(invalid(f"{path}.path", where, "must be an absolute path"))
    else:
        errors.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    return errors + _check_backend(one.get("backend") or {}, f"{path}.backend")


def _check_backend(backend: JsonObject, path: str) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if resource is not None and service is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return [
            missing_field(f"{path}.resource.{field}") for field in ("kind", "name") if not resource.get(field)
        ]
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    errors: list[FieldError] = []
    name, port = service.get("name") or "", service.get("port") or {}
    if not name:
        errors.append(missing_field(f"{path}.service.name"))
    errors += [invalid(f"{path}.service.name", name, text) for text in dns_label(name) if name]
    if port.get("name") and port.get("number"):
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif port.get("name"):
        errors += check_port(port["name"], f"{path}.service.port.name")
    elif port.get("number"):
        errors += check_port(port["number"], f"{path}.service.port.number")
    else:
        errors.append(missing_field(path, "port name or number is required"))
    return errors


def check_network_policy(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a network policy."""
    spec = obj.get("spec") or {}
    known = set() if old is None else set(_ranges(old.get("spec") or {}))
    errors = check_label_selector(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            at = f"spec.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports") or ()):
                errors += _check_policy_port(port, f"{at}.ports[{number}]")
            for number, peer in enumerate(rule.get(peers) or ()):
                errors += _check_peer(peer, f"{at}.{peers}[{number}]", known)
    kinds = spec.get("policyTypes") or []
    if len(kinds) > len(_POLICY_TYPES):
        return [*errors, invalid("spec.policyTypes", kinds, "may not specify more than two policyTypes")]
    for index, kind in enumerate(kinds):
        if kind not in _POLICY_TYPES:
            errors.append(not_supported(f"spec.policyTypes[{index}]", kind, _POLICY_TYPES))
    return errors


def _ranges(spec: JsonObject) -> Iterator[str]:
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for rule in spec.get(direction) or ():
            for peer in rule.get(peers) or ():
                block = peer.get("ipBlock") or {}
                yield block.get("cidr") or ""
                yield from block.get("except") or ()


def _check_policy_port(port: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    protocol, number, last = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        errors.append(not_supported(f"{path}.protocol", protocol, _PROTOCOLS))
    at = f"{path}.endPort"
    if number is None:
        text = "may not be specified when `port` is not specified"
        return errors if last is None else [*errors, invalid(at, last, text)]
    errors += check_port(number, f"{path}.port")
    if last is not None:
        if isinstance(number, str):
            errors.append(invalid(at, last, "may not be specified when `port` is non-numeric"))
        elif last < number:
            errors.append(invalid(at, number, "must be greater than or equal to `port`"))
        errors += check_port(last, at)
    return errors


def _check_peer(peer: JsonObject, path: str, known: Set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    block = peer.get("ipBlock")
    selectors = [kind for kind in ("podSelector", "namespaceSelector") if peer.get(kind) is not None]
    for kind in selectors:
        errors += check_label_selector(peer[kind], f"{path}.{kind}")
    if block is not None:
        at, where = f"{path}.ipBlock", block.get("cidr") or ""
        errors += check_legacy_range(where, f"{at}.cidr", known) if where else [missing_field(f"{at}.cidr")]
        for index, one in enumerate(block.get("except") or ()):
            errors += check_legacy_range(one, f"{at}.except[{index}]", known)
    if block is None and not selectors:
        errors.append(missing_field(path, "must specify a peer"))
    elif block is not None and selectors:
        errors.append(forbidden_field(path, "may not specify both ipBlock and another peer"))
    return errors
