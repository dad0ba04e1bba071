"""The strategy of services, which allocates their addresses and ports (``pkg/registry/core/service``)."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterator

import orjson
from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.addresses import parse_address
from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.common.objectmeta import validate_metadata, validate_metadata_update
from dra_apiserver.errors import FieldError, StatusError, internal, invalid, invalid_object
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.networking.service import (
    NONE,
    check_cluster_ips,
    check_service,
    is_external,
    is_headless,
    needs_health_check,
    service_warnings,
)

SERVICE_RANGE = ipaddress.IPv4Network("10.96.0.0/16")
"""The range of services' addresses: kube-apiserver's ``--service-cluster-ip-range``."""
_PORTS = range(30000, 32768)
# Automatic allocation avoids the lower part of the ranges, which is left to services that request a value.
_FIRST_ADDRESS = 257
_FIRST_PORT = 30086
_ATTEMPTS = 64
_EXPOSED = ("NodePort", "LoadBalancer")


@functools.lru_cache(maxsize=4096)
def _allocated_values(service: bytes) -> tuple[frozenset[str], frozenset[int]]:
    """Return the addresses and node ports of a stored service."""
    spec = orjson.loads(service).get("spec") or {}
    return frozenset(spec.get("clusterIPs") or ()), frozenset(_ports_of(spec))


def _ports_of(spec: JsonObject) -> Iterator[int]:
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            yield port["nodePort"]
    if spec.get("healthCheckNodePort"):
        yield spec["healthCheckNodePort"]


class _Pool:
    """The addresses and ports that are allocated to stored services and by this request."""

    def __init__(self, ctx: Context) -> None:
        self._choose = ctx.choose
        self.addresses: set[str] = set()
        self.ports: set[int] = set()
        for stored in ctx.listing("", "services", ""):
            addresses, ports = _allocated_values(stored)
            self.addresses |= addresses
            self.ports |= ports

    def address(self) -> str:
        """Allocate a free address.

        Raises:
            StatusError: 500, the range is full.
        """
        numbers = range(_FIRST_ADDRESS, SERVICE_RANGE.num_addresses - 1)
        for number in self._shuffle(numbers):
            found = str(SERVICE_RANGE[number])
            if found not in self.addresses:
                self.addresses.add(found)
                return found
        raise internal("failed to allocate a serviceIP: range is full")

    def port(self) -> int:
        """Allocate a free node port.

        Raises:
            StatusError: 500, the range is full.
        """
        for number in self._shuffle(range(_FIRST_PORT, _PORTS.stop)):
            if number not in self.ports:
                self.ports.add(number)
                return number
        raise internal("failed to allocate a nodePort: range is full")

    def _shuffle(self, numbers: range) -> Iterator[int]:
        """Yield a few of the numbers at random, then all of them in order."""
        yield from (self._choose(numbers) for _ in range(_ATTEMPTS))
        yield from numbers

    def take_address(self, address: str) -> str:
        """Allocate this address. Return the error, or ""."""
        found = parse_address(address)
        if found not in SERVICE_RANGE:
            text = f"the provided IP ({address}) is not in the valid range."
            return f"{text} The range of valid IPs is {SERVICE_RANGE}"
        if address in self.addresses:
            return "provided IP is already allocated"
        self.addresses.add(address)
        return ""

    def take_port(self, port: int) -> str:
        """Allocate this port. Return the error, or ""."""
        if port not in _PORTS:
            valid = f"{_PORTS.start}-{_PORTS.stop - 1}"
            return f"provided port is not in the valid range. The range of valid ports is {valid}"
        if port in self.ports:
            return "provided port is already allocated"
        self.ports.add(port)
        return ""


class ServiceStrategy(GenericStrategy):
    """Allocates a service's addresses and node ports, and releases those that it no longer needs."""

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Allocate addresses, families and node ports.

        Raises:
            StatusError: 422, a requested value is not available.
        """
        spec = obj.setdefault("spec", {})
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        pool = _Pool(ctx)
        _set_families(obj, None)
        if spec.get("type") != "ExternalName" and not is_headless(spec):
            _allocate_addresses(obj, pool)
        _allocate_ports(obj, None, pool)
        obj["status"] = {"loadBalancer": {}}

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and spec."""
        return validate_metadata(obj["metadata"], True, ctx.kind.validation.name_rule) + check_service(
            obj, None
        )

    def warnings_on_create(self, obj: JsonObject, ctx: Context) -> list[str]:
        """Return warnings about valid fields that probably do not have the intended effect."""
        return service_warnings(obj)

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Keep the allocated values, and allocate missing ones.

        Raises:
            StatusError: 422, a requested value is not available.
        """
        if ctx.subresource == "status":
            super().prepare_for_update(obj, old, ctx)
            return
        spec, before = obj.setdefault("spec", {}), old.get("spec") or {}
        _keep_allocated(spec, before)
        pool = _Pool(ctx)
        _set_families(obj, before)
        named = before.get("type") == "ExternalName"
        if named and spec.get("type") != "ExternalName" and not is_headless(spec):
            _allocate_addresses(obj, pool)
        _allocate_ports(obj, before, pool)
        obj["status"] = old.get("status") or {"loadBalancer": {}}
        _drop_unneeded(obj, spec, before)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and spec, and that immutable fields are unchanged."""
        errors = validate_metadata_update(obj["metadata"], old["metadata"])
        return errors if ctx.subresource == "status" else errors + check_service(obj, old)

    def warnings_on_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[str]:
        """Return warnings about valid fields that probably do not have the intended effect."""
        if ctx.subresource == "status":
            return super().warnings_on_update(obj, old, ctx)
        return service_warnings(obj)


def _refuse(obj: JsonObject, errors: list[FieldError]) -> StatusError:
    return invalid_object("", "Service", obj["metadata"].get("name", ""), errors)


def _set_families(obj: JsonObject, before: JsonObject | None) -> None:
    """Set the families and the policy, on a cluster that only has IPv4 addresses (initIPFamilyFields)."""
    spec = obj["spec"]
    if spec.get("type") == "ExternalName":
        return
    free = spec.get("clusterIP") == NONE and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        kept = (before or {}).get("ipFamilyPolicy")
        spec["ipFamilyPolicy"] = kept or ("RequireDualStack" if free else "SingleStack")
    errors = check_cluster_ips(spec, set((before or {}).get("clusterIPs") or ()))
    if errors:
        raise _refuse(obj, errors)
    addresses, families = spec.get("clusterIPs") or [], list(spec.get("ipFamilies") or ())
    policy = spec["ipFamilyPolicy"]
    single = policy == "SingleStack"
    if single and len(addresses) == 2:
        text = "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified"
        errors.append(invalid("spec.ipFamilyPolicy", policy, text))
    if single and len(families) == 2:
        text = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"
        errors.append(invalid("spec.ipFamilyPolicy", policy, text))
    for index, address in enumerate(addresses):
        if address == NONE:
            break
        if index >= len(families):
            found = parse_address(address)
            if found is not None and found.version == 6:
                text = "IPv6 is not configured on this cluster"
                errors.append(invalid(f"spec.clusterIPs[{index}]", addresses, text))
            else:
                families.append("IPv4")
    if errors:
        raise _refuse(obj, errors)
    if free:
        families = families or ["IPv4"]
        if len(families) < 2 and not single:
            families.append("IPv6" if families[0] == "IPv4" else "IPv4")
        spec["ipFamilies"] = families
        return
    if policy == "RequireDualStack":
        text = "this cluster is not configured for dual-stack services"
        errors.append(invalid("spec.ipFamilyPolicy", policy, text))
    errors += [
        invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
        for index, family in enumerate(families)
        if family != "IPv4"
    ]
    if errors:
        raise _refuse(obj, errors)
    spec["ipFamilies"] = families or ["IPv4"]


def _allocate_addresses(obj: JsonObject, pool: _Pool) -> None:
    spec = obj["spec"]
    addresses = list(spec.get("clusterIPs") or ())
    for index in range(len(spec["ipFamilies"])):
        if index >= len(addresses):
            addresses.append(pool.address())
            continue
        problem = pool.take_address(addresses[index])
        if problem:
            text = f"failed to allocate IP {addresses[index]}: {problem}"
            raise _refuse(obj, [invalid("spec.clusterIPs", addresses, text)])
    spec["clusterIP"], spec["clusterIPs"] = addresses[0], addresses


def _wants_ports(spec: JsonObject) -> bool:
    kind = spec.get("type")
    return kind == "NodePort" or (
        kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    )


def _allocate_ports(obj: JsonObject, before: JsonObject | None, pool: _Pool) -> None:
    spec = obj["spec"]
    known = set(_ports_of(before)) if before is not None else set()
    ports = spec.get("ports") or []
    if spec.get("type") in _EXPOSED:
        # Two ports with the same number, TCP and UDP, share a node port.
        shared: dict[int, int] = {}
        if before is None:
            for port in ports:
                if port.get("nodePort"):
                    shared.setdefault(port.get("port", 0), port["nodePort"])
        taken: set[int] = set()
        for index, port in enumerate(ports):
            if not port.get("nodePort") and not _wants_ports(spec):
                continue
            number = port.get("nodePort") or shared.get(port.get("port", 0)) or 0
            if number and number not in known and number not in taken:
                problem = pool.take_port(number)
                if problem:
                    raise _refuse(obj, [invalid(f"spec.ports[{index}].nodePort", number, problem)])
            number = number or pool.port()
            taken.add(number)
            port["nodePort"] = number
            if before is None:
                shared.setdefault(port.get("port", 0), number)
    if needs_health_check(spec) and not (before is not None and needs_health_check(before)):
        wanted = spec.get("healthCheckNodePort")
        if not wanted:
            spec["healthCheckNodePort"] = pool.port()
        elif problem := pool.take_port(wanted):
            text = f"failed to allocate requested HealthCheck NodePort {wanted}: {problem}"
            raise internal(text)


def _keep_allocated(spec: JsonObject, before: JsonObject) -> None:
    """Copy allocated values that this update omits (patchAllocatedValues, normalizeClusterIPs)."""
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        if not spec.get("clusterIP") and before.get("clusterIP"):
            spec["clusterIP"] = before["clusterIP"]
        if not spec.get("clusterIPs") and before.get("clusterIPs"):
            spec["clusterIPs"] = list(before["clusterIPs"])
    if spec.get("type") in _EXPOSED and before.get("type") in _EXPOSED:
        now, old = (
            {port["nodePort"] for port in one.get("ports") or () if port.get("nodePort")}
            for one in (spec, before)
        )
        used = now & old
        named = {port.get("name", ""): port.get("nodePort", 0) for port in before.get("ports") or ()}
        for port in spec.get("ports") or ():
            kept = named.get(port.get("name", ""), 0)
            if not port.get("nodePort") and kept and kept not in used:
                port["nodePort"] = kept
                used.add(kept)
    if needs_health_check(spec) and needs_health_check(before) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before.get("healthCheckNodePort", 0)
    single, many = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if single != (before.get("clusterIP") or "") and many == (before.get("clusterIPs") or []):
        if single:
            spec["clusterIPs"] = [single]
        else:
            spec.pop("clusterIPs", None)


def _drop_unneeded(obj: JsonObject, spec: JsonObject, before: JsonObject) -> None:
    """Remove fields that only a service of the previous type can have (dropTypeDependentFields)."""

    def same(*fields: str) -> bool:
        return all((spec.get(field) or None) == (before.get(field) or None) for field in fields)

    def drop(*fields: str) -> None:
        for field in fields:
            if same(field):
                spec.pop(field, None)

    kind, old = spec.get("type"), before.get("type")
    if old != "ExternalName" and kind == "ExternalName":
        if same("clusterIP", "clusterIPs"):
            drop("clusterIP", "clusterIPs")
        drop("ipFamilies", "ipFamilyPolicy")
    if old in _EXPOSED and kind not in _EXPOSED:
        ports = {port.get("nodePort", 0) for port in spec.get("ports") or ()} - {0}
        if ports <= {port.get("nodePort", 0) for port in before.get("ports") or ()}:
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    if needs_health_check(before) and not needs_health_check(spec):
        drop("healthCheckNodePort")
    if old == "LoadBalancer" != kind:
        drop("allocateLoadBalancerNodePorts", "loadBalancerClass")
    if is_external(before) and not is_external(spec):
        drop("externalTrafficPolicy")
    if kind != "LoadBalancer":
        obj["status"] = {**obj["status"], "loadBalancer": {}}
