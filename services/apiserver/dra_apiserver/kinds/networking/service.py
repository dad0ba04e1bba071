"""Validate services (``ValidateServiceCreate`` and ``ValidateServiceUpdate``)."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_label, dns_subdomain, label_key

from dra_apiserver.common.addresses import (
    check_endpoint_address,
    check_legacy_address,
    check_legacy_range,
    parse_address,
)
from dra_apiserver.common.lists import find_repeated
from dra_apiserver.common.objectmeta import validate_labels
from dra_apiserver.errors import (
    FieldError,
    Verbatim,
    duplicate,
    forbidden_field,
    invalid,
    missing_field,
    not_supported,
)
from dra_apiserver.kinds.pods.probes import check_port

NONE = "None"
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES = ("ClientIP", "None")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_TRAFFIC = ("Cluster", "Local")
_FAMILIES = ("IPv4", "IPv6")
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_LONGEST_AFFINITY = 86400
_ONCE = "may not change once set"
_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"
_HINTS = "service.kubernetes.io/topology-aware-hints"
_MODE = "service.kubernetes.io/topology-mode"
_SOURCES = "service.beta.kubernetes.io/load-balancer-source-ranges"


def is_headless(spec: JsonObject) -> bool:
    """True if the service explicitly has no cluster IP (``None``)."""
    return spec.get("clusterIPs") == [NONE]


def is_external(spec: JsonObject) -> bool:
    """True if the service can be reached from outside the cluster."""
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def needs_health_check(spec: JsonObject) -> bool:
    """True if a load balancer checks which nodes have endpoints."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def check_service(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Return the errors of a new or changed service, in upstream's order."""
    spec, before = obj.get("spec") or {}, (old or {}).get("spec") or {}
    errors = [] if old is None else _check_change(spec, before)
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    if _MODE in annotations and annotations.get(_HINTS, annotations[_MODE]) != annotations[_MODE]:
        text = f"must match annotations[{_HINTS}] when both are specified"
        errors.append(invalid(f"metadata.annotations[{_MODE}]", annotations[_MODE], text))
    errors += _check_type(spec)
    ports = spec.get("ports") or []
    names: set[str] = set()
    for index, port in enumerate(ports):
        errors += _check_port(port, f"spec.ports[{index}]", len(ports) > 1, names)
    errors += validate_labels(spec.get("selector") or {}, "spec.selector")
    errors += _check_affinity(spec)
    errors += check_cluster_ips(spec, set(before.get("clusterIPs") or ()))
    external = set(before.get("externalIPs") or ())
    for index, address in enumerate(spec.get("externalIPs") or ()):
        at = f"spec.externalIPs[{index}]"
        wrong = check_legacy_address(address, at, external)
        errors += wrong or check_endpoint_address(address, at)
    kind = spec.get("type") or ""
    if not kind:
        errors.append(missing_field("spec.type"))
    elif kind not in _TYPES:
        errors.append(not_supported("spec.type", kind, _TYPES))
    errors += _check_repeated(ports, kind)
    return errors + _check_balancer(spec, before, annotations) + _check_traffic(spec)


def _check_change(spec: JsonObject, before: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        headless = is_headless(spec) and is_headless(before)
        errors += [] if headless else _check_kept_addresses(spec, before)
        errors += _check_kept_families(spec, before)
    both = spec.get("type") == before.get("type") == "LoadBalancer"
    if both and spec.get("loadBalancerClass") != before.get("loadBalancerClass"):
        shown = spec.get("loadBalancerClass")
        errors.append(invalid("spec.loadBalancerClass", Verbatim("null") if shown is None else shown, _ONCE))
    errors += _check_class(spec)
    checked = needs_health_check(spec) and needs_health_check(before)
    if checked and spec.get("healthCheckNodePort", 0) != before.get("healthCheckNodePort", 0):
        errors.append(forbidden_field("spec.healthCheckNodePort", "field is immutable"))
    return errors


def _check_kept_addresses(spec: JsonObject, before: JsonObject) -> list[FieldError]:
    new, old = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    shown: Any = new or Verbatim("null")
    if len(new) == len(old):
        changed = [index for index, one in enumerate(old) if one != new[index]]
        return [invalid(f"spec.clusterIPs[{index}]", new, _ONCE) for index in changed]
    errors = []
    if not new:
        errors.append(invalid("spec.clusterIPs[0]", shown, "primary clusterIP can not be unset"))
    elif old and new[0] != old[0]:
        errors.append(invalid("spec.clusterIPs[0]", new, _ONCE))
    if len(new) == 1 < len(old) and spec.get("ipFamilyPolicy") != "SingleStack":
        text = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        errors.append(invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), text))
    return errors


def _check_kept_families(spec: JsonObject, before: JsonObject) -> list[FieldError]:
    new, old = spec.get("ipFamilies") or [], before.get("ipFamilies") or []
    if is_headless(spec) or is_headless(before):
        return []
    if not new and old:
        return [invalid("spec.ipFamilies[0]", Verbatim("null"), "primary ipFamily can not be unset")]
    if new and old and new[0] != old[0]:
        return [invalid("spec.ipFamilies[0]", new, "may not change once set")]
    return []


def _check_type(spec: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    kind = spec.get("type")
    if not spec.get("ports") and not is_headless(spec) and kind != "ExternalName":
        errors.append(missing_field("spec.ports"))
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        text = f"may not be set to 'None' for {kind} services"
        errors.append(invalid("spec.clusterIPs[0]", NONE, text))
    if kind == "ExternalName":
        errors += [
            forbidden_field(f"spec.{field}", "may not be set for ExternalName services")
            for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
            if spec.get(field)
        ]
        name = (spec.get("externalName") or "").removesuffix(".")
        if name:
            errors += [invalid("spec.externalName", name, text) for text in dns_subdomain(name)]
        else:
            errors.append(missing_field("spec.externalName"))
    return errors


def _check_port(port: JsonObject, path: str, named: bool, names: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    name, protocol = port.get("name") or "", port.get("protocol") or ""
    if name:
        errors += [invalid(f"{path}.name", name, text) for text in dns_label(name)]
        if name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.add(name)
    elif named:
        errors.append(missing_field(f"{path}.name"))
    errors += check_port(port.get("port") or 0, f"{path}.port")
    if not protocol:
        errors.append(missing_field(f"{path}.protocol"))
    elif protocol not in _PROTOCOLS:
        errors.append(not_supported(f"{path}.protocol", protocol, _PROTOCOLS))
    errors += check_port(port.get("targetPort") or 0, f"{path}.targetPort")
    if port.get("appProtocol") is not None:
        errors += _check_key(port["appProtocol"], f"{path}.appProtocol")
    return errors


def _check_key(value: str, path: str) -> list[FieldError]:
    return [invalid(path, value, text) for text in label_key(value)]


def _check_affinity(spec: JsonObject) -> list[FieldError]:
    affinity, path = spec.get("sessionAffinity") or "", "spec.sessionAffinityConfig"
    if not affinity:
        return [missing_field("spec.sessionAffinity")]
    if affinity not in _AFFINITIES:
        return [not_supported("spec.sessionAffinity", affinity, _AFFINITIES)]
    config = spec.get("sessionAffinityConfig")
    if affinity == "None":
        text = "must not be set when session affinity is None"
        return [] if config is None else [forbidden_field(path, text)]
    seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
    if seconds is None:
        return [missing_field(f"{path}.clientIP.timeoutSeconds", "when session affinity type is ClientIP")]
    if 0 < seconds <= _LONGEST_AFFINITY:
        return []
    text = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
    return [invalid(f"{path}.clientIP.timeoutSeconds", seconds, text)]


def check_cluster_ips(spec: JsonObject, known: Set[str]) -> list[FieldError]:
    """Validate the addresses, their families and the policy (ValidateServiceClusterIPsRelatedFields)."""
    if spec.get("type") == "ExternalName":
        return []
    single, many, path = spec.get("clusterIP") or "", spec.get("clusterIPs") or [], "spec.clusterIPs"
    errors: list[FieldError] = []
    if single and not many:
        errors.append(missing_field(path))
    elif single and many[0] != single:
        errors.append(invalid(path, many, "first value must match `clusterIP`"))
    elif many and not single:
        errors.append(invalid(path, many, "must be empty when `clusterIP` is not specified"))
    families = spec.get("ipFamilies") or []
    errors += _check_families(families, spec.get("ipFamilyPolicy"))
    wrong: list[FieldError] = []
    for index, address in enumerate(many):
        if index == 0 and address == NONE:
            if len(many) > 1:
                wrong.append(invalid(path, many, "'None' must be the first and only value"))
            continue
        wrong += check_legacy_address(address, f"{path}[{index}]", known)
    errors += wrong
    if len(many) > 2:
        errors.append(invalid(path, many, "may only hold up to 2 values"))
    if wrong or is_headless(spec):
        return errors
    versions = [4 if one is None else one.version for one in map(parse_address, many)]
    if len(many) > 1 and set(versions) != {4, 6}:
        text = "may specify no more than one IP for each IP family"
        errors.append(invalid(path, many, text))
    for index, (address, family) in enumerate(zip(many, families, strict=False)):
        if family in _FAMILIES and family != f"IPv{versions[index]}":
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(f"{path}[{index}]", address, text))
    return errors


def _check_families(families: list[str], policy: str | None) -> list[FieldError]:
    errors: list[FieldError] = []
    again = find_repeated(families)
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            errors.append(not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if index in again:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", family))
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported("spec.ipFamilyPolicy", policy, _POLICIES))
    return errors


def _check_repeated(ports: list[JsonObject], kind: str) -> list[FieldError]:
    errors = [
        forbidden_field(f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'")
        for index, port in enumerate(ports)
        if kind == "ClusterIP" and port.get("nodePort")
    ]
    taken: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        place = (port.get("protocol"), port.get("nodePort"))
        if not port.get("nodePort"):
            continue
        if place in taken:
            errors.append(duplicate(f"spec.ports[{index}].nodePort", port["nodePort"]))
        taken.add(place)
    seen: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        protocol, number = port.get("protocol") or "", port.get("port") or 0
        if (protocol, number) in seen:
            shown = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": number}
            errors.append(duplicate(f"spec.ports[{index}]", {**shown, "TargetPort": 0, "NodePort": 0}))
        seen.add((protocol, number))
    return errors


def _check_balancer(spec: JsonObject, before: JsonObject, annotations: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    balancer = spec.get("type") == "LoadBalancer"
    ranges, path = spec.get("loadBalancerSourceRanges") or [], "spec.LoadBalancerSourceRanges"
    if ranges:
        if not balancer:
            errors.append(forbidden_field(path, _BALANCER_ONLY))
        known = {one.strip() for one in before.get("loadBalancerSourceRanges") or ()}
        for index, one in enumerate(ranges):
            errors += check_legacy_range(one.strip(), f"{path}[{index}]", known)
    elif _SOURCES in annotations:
        path = f"metadata.annotations[{_SOURCES}]"
        if not balancer:
            errors.append(forbidden_field(path, _BALANCER_ONLY))
        for one in filter(None, (annotations[_SOURCES].strip() or "").split(",")):
            errors += check_legacy_range(one.strip(), path)
    if spec.get("allocateLoadBalancerNodePorts") is not None and not balancer:
        errors.append(forbidden_field("spec.allocateLoadBalancerNodePorts", _BALANCER_ONLY))
    if spec.get("allocateLoadBalancerNodePorts") is None and balancer:
        errors.append(missing_field("allocateLoadBalancerNodePorts"))
    return errors + _check_class(spec)


def _check_class(spec: JsonObject) -> list[FieldError]:
    name, path = spec.get("loadBalancerClass"), "spec.loadBalancerClass"
    if name is None:
        return []
    if spec.get("type") != "LoadBalancer":
        return [forbidden_field(path, _BALANCER_ONLY)]
    return _check_key(name, path)


def _check_traffic(spec: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    policy, path = spec.get("externalTrafficPolicy") or "", "spec.externalTrafficPolicy"
    if not is_external(spec):
        if policy:
            text = "may only be set for externally-accessible services"
            errors.append(invalid(path, policy, text))
    elif not policy:
        errors.append(missing_field(path))
    elif policy not in _TRAFFIC:
        errors.append(not_supported(path, policy, _TRAFFIC))
    port, path = spec.get("healthCheckNodePort") or 0, "spec.healthCheckNodePort"
    if needs_health_check(spec):
        errors += check_port(port, path) if port else [missing_field(path)]
    elif port:
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid(path, port, text))
    inner, path = spec.get("internalTrafficPolicy"), "spec.internalTrafficPolicy"
    if inner is None and spec.get("type") in ("NodePort", "LoadBalancer", "ClusterIP"):
        errors.append(missing_field(path))
    elif inner is not None and inner not in _TRAFFIC:
        errors.append(not_supported(path, inner, _TRAFFIC))
    spread = spec.get("trafficDistribution")
    if spread is not None and spread not in _DISTRIBUTIONS:
        errors.append(not_supported("spec.trafficDistribution", spread, _DISTRIBUTIONS))
    return errors


def service_warnings(obj: JsonObject) -> list[str]:
    """Return warnings about valid fields that probably do not have the effect intended (GetWarningsForService)."""
    spec = obj.get("spec") or {}
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    kind, outside = spec.get("type"), spec.get("externalIPs")
    found = []
    if _HINTS in annotations:
        found.append(f"annotation {_HINTS} is deprecated, please use {_MODE} instead")
    if kind == "ClusterIP" and spec.get("clusterIP") == NONE:
        if spec.get("loadBalancerIP"):
            found.append("spec.loadBalancerIP is ignored for headless services")
        if outside:
            found.append("spec.externalIPs is ignored for headless services")
        if spec.get("sessionAffinity") != "None":
            found.append("spec.SessionAffinity is ignored for headless services")
    elif outside and kind != "ExternalName":
        found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if kind == "ExternalName" and outside:
        found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if kind != "ExternalName" and spec.get("externalName"):
        found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return found
