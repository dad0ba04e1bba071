"""Validate the status of a ResourceClaim: its allocation, its users, and the devices' status from drivers."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.numerals import integer
from dra_shared.version import V1_35, V1_37, V1_38, Version

from dra_apiserver.common import names
from dra_apiserver.common.conditions import check_conditions
from dra_apiserver.common.goshapes import show
from dra_apiserver.common.objectmeta import IMMUTABLE
from dra_apiserver.errors import (
    FieldError,
    forbidden_field,
    invalid,
    missing_field,
    not_supported,
    too_long,
    too_many,
)
from dra_apiserver.kinds.resource.binding import check_binding
from dra_apiserver.kinds.resource.claimspec import RequestNames, check_capacity_names
from dra_apiserver.kinds.resource.declared import limit, values
from dra_apiserver.kinds.resource.goshapes import allocation as allocation_shape
from dra_apiserver.kinds.resource.lists import Lists
from dra_apiserver.kinds.resource.opaque import check_configuration, check_object
from dra_apiserver.kinds.resource.selectors import check_node_selector
from dra_apiserver.kinds.resource.skips import check_skips
from dra_apiserver.kinds.resource.taints import check_toleration
from dra_apiserver.schema import same

_RESERVED_FOR = limit("ResourceClaimStatus", "reservedFor")
_RESULTS = limit("DeviceAllocationResult", "results")
_CONFIGS = limit("DeviceAllocationResult", "config")
_DEVICE_CONDITIONS = 8
_DEVICE_DATA_LENGTH = 10 * 1024
_NETWORK_NAMES = ("interfaceName", "hardwareAddress")
_NETWORK_LENGTHS = [(name, limit("NetworkDeviceData", name)) for name in _NETWORK_NAMES]
_ADDRESSES = limit("NetworkDeviceData", "ips")
_SOURCES = values("DeviceAllocationConfiguration", "source")
_DeviceID = tuple[str, str, str, str]


def check_status(
    claim: JsonObject, old: JsonObject, kubernetes: Version, path: str = "status"
) -> list[FieldError]:
    """Validate a changed status. An allocation may be removed, but not changed."""
    status, before = claim.get("status") or {}, old.get("status") or {}
    allocation = status.get("allocation")
    known = RequestNames((claim.get("spec") or {}).get("devices") or {}, kubernetes)
    lists = Lists(kubernetes)
    reserved = status.get("reservedFor") or []
    errors = lists.check_set(
        reserved,
        _RESERVED_FOR,
        _check_consumer,
        lambda consumer: consumer.get("uid", ""),
        f"{path}.reservedFor",
        "uid",
    )
    allocated = {
        _device_id(result) for result in ((allocation or {}).get("devices") or {}).get("results") or ()
    }
    errors += lists.check_set(
        status.get("devices"),
        None,
        lambda device, at: _check_device(device, at, allocated, kubernetes),
        lambda device: (_device_id(device), _format_device(device, kubernetes)),
        f"{path}.devices",
        "deviceID",
    )
    if reserved:
        if allocation is None:
            text = "may not be specified when `allocated` is not set"
            errors.append(forbidden_field(f"{path}.reservedFor", text))
        elif (claim.get("metadata") or {}).get("deletionTimestamp") and any(
            consumer not in (before.get("reservedFor") or ()) for consumer in reserved
        ):
            text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            errors.append(forbidden_field(f"{path}.reservedFor", text))
    if allocation is not None:
        if before.get("allocation") is None:
            errors += _check_allocation(allocation, f"{path}.allocation", known, kubernetes)
        elif not same("io.k8s.api.resource.v1.AllocationResult", before["allocation"], allocation):
            errors.append(
                invalid(f"{path}.allocation", show(allocation, allocation_shape(kubernetes)), IMMUTABLE)
            )
    return errors


def _check_consumer(consumer: JsonObject, path: str) -> list[FieldError]:
    return [missing_field(f"{path}.{name}") for name in ("resource", "name", "uid") if not consumer.get(name)]


def _device_id(device: JsonObject) -> _DeviceID:
    return (
        device.get("driver", ""),
        device.get("pool", ""),
        device.get("device", ""),
        device.get("shareID") or "",
    )


def _format_device(device: JsonObject, kubernetes: Version) -> Any:
    """Return the device's id for messages. In 1.34 the printed struct has no exported fields."""
    parts = dict(zip(("Driver", "Pool", "Device", "ShareID"), _device_id(device), strict=True))
    return show(parts if kubernetes >= V1_35 else {name: {} for name in parts})


def _check_device(
    device: JsonObject, path: str, allocated: set[_DeviceID], kubernetes: Version
) -> list[FieldError]:
    errors = names.driver_name(device.get("driver", ""), f"{path}.driver", kubernetes)
    errors += names.pool_name(device.get("pool", ""), f"{path}.pool")
    errors += names.label(device.get("device", ""), f"{path}.device")
    if device.get("shareID") is not None:
        errors += names.uid(device["shareID"], f"{path}.shareID")
    if _device_id(device) not in allocated:
        errors.append(
            invalid(path, _format_device(device, kubernetes), "must be an allocated device in the claim")
        )
    conditions = device.get("conditions") or []
    if len(conditions) > _DEVICE_CONDITIONS:
        errors.append(too_many(f"{path}.conditions", len(conditions), _DEVICE_CONDITIONS))
    errors += check_conditions(conditions, f"{path}.conditions", kubernetes)
    if device.get("data") is not None:
        errors += check_object(device["data"], f"{path}.data", _DEVICE_DATA_LENGTH)
    network = device.get("networkData")
    return errors + (
        _check_network(network, f"{path}.networkData", kubernetes) if network is not None else []
    )


def _check_network(network: JsonObject, path: str, kubernetes: Version) -> list[FieldError]:
    errors = []
    for name, most in _NETWORK_LENGTHS:
        if len((network.get(name) or "").encode()) > most:
            errors.append(too_long(f"{path}.{name}", most))
    addresses = network.get("ips")
    return errors + Lists(kubernetes).check_set(
        addresses, _ADDRESSES, _check_address, lambda address: address, f"{path}.ips"
    )


def _check_address(address: str, path: str) -> list[FieldError]:
    """Check an interface's address in CIDR form, in net/netip's canonical spelling."""
    host, slash, bits = address.partition("/")
    try:
        if not slash or not re.fullmatch(r"\d+", bits, re.ASCII):
            raise ValueError
        # Kubernetes still parses leading zeros as decimal, and then reports that they are not canonical.
        plain = re.sub(r"\b0+(?=\d)", "", host) if "." in host and ":" not in host else host
        interface = ipaddress.ip_interface(f"{plain}/{integer(bits)}")
    except ValueError:
        text = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        return [invalid(path, address, text)]
    mapped = interface.ip.ipv4_mapped if interface.version == 6 else None
    if mapped is not None:
        return [invalid(path, address, "must not be an IPv4-mapped IPv6 address")]
    canonical = f"{interface.ip.compressed}/{interface.network.prefixlen}"
    if canonical != address:
        return [invalid(path, address, f'must be in canonical form ("{canonical}")')]
    return []


def _check_allocation(
    allocation: JsonObject, path: str, known: RequestNames, kubernetes: Version
) -> list[FieldError]:
    devices = allocation.get("devices") or {}
    lists = Lists(kubernetes)
    errors = lists.check_list(
        devices.get("results"),
        _RESULTS,
        lambda result, at: _check_result(result, at, known, kubernetes),
        f"{path}.devices.results",
    )
    errors += lists.check_list(
        devices.get("config"),
        _CONFIGS,
        lambda config, at: _check_config(config, at, known, kubernetes),
        f"{path}.devices.config",
    )
    selector = allocation.get("nodeSelector")
    return errors + (check_node_selector(selector, f"{path}.nodeSelector") if selector is not None else [])


def _check_result(
    result: JsonObject, path: str, known: RequestNames, kubernetes: Version
) -> list[FieldError]:
    errors = known.check(result.get("request", ""), f"{path}.request")
    errors += names.driver_name(result.get("driver", ""), f"{path}.driver", kubernetes)
    errors += names.pool_name(result.get("pool", ""), f"{path}.pool")
    errors += names.label(result.get("device", ""), f"{path}.device")
    errors += check_binding(result, path, kubernetes)
    if kubernetes >= V1_37:
        for index, toleration in enumerate(result.get("tolerations") or ()):
            errors += check_toleration(toleration, f"{path}.tolerations[{index}]", kubernetes)
    if result.get("shareID") is not None:
        errors += names.uid(result["shareID"], f"{path}.shareID")
    errors += check_skips(result.get("skipNodeOperations"), f"{path}.skipNodeOperations")
    if kubernetes >= V1_38:
        consumed = result.get("consumedCapacity")
        errors += check_capacity_names(consumed, f"{path}.consumedCapacity", kubernetes)
    return errors


def _check_config(
    config: JsonObject, path: str, known: RequestNames, kubernetes: Version
) -> list[FieldError]:
    source = config.get("source", "")
    errors: list[FieldError] = []
    if not source:
        errors.append(missing_field(f"{path}.source"))
    elif source not in _SOURCES:
        errors.append(not_supported(f"{path}.source", source, _SOURCES))
    errors += known.check_references(config.get("requests"), f"{path}.requests")
    return errors + check_configuration(config, path, kubernetes)
