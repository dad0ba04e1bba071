"""The devices of a profile on a node."""

import dataclasses
import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from dra_driverkit.devices import pool
from dra_driverkit.errors import DriverConfigError
from dra_driverkit.resources import DriverResources, Pool, PoolError, PoolSlice, validate
from dra_shared.api.node import NodeSelector
from dra_shared.api.resource import Counter, CounterSet, Device

from dra_node_agent.drivers.profile.model import CounterTemplate, DeviceTemplate, PoolTemplate, Profile
from dra_node_agent.drivers.profile.template import MissingValue, fill

_SERIAL_DIGITS = 18


def resources(profile: Profile, node_name: str) -> DriverResources:
    """Return the resources of a node with this profile: its own pool, which has the node's name, and further ones.

    Raises:
        DriverConfigError: the profile's devices are invalid, or its pools are inconsistent.
    """
    base = {"node": node_name, "driver": profile.driver}
    own = _slices(profile, profile, base)
    pools = {node_name: Pool(own, generation=profile.generation)}
    for template in profile.pools:
        if not _of_cluster(template):
            _add(profile, pools, template, base)
    return _validate_pools(profile, pools)


def cluster_resources(profile: Profile) -> DriverResources:
    """Return the pools of the whole cluster: those without ``{node}`` in their name.

    Raises:
        DriverConfigError: like :func:`resources`.
    """
    pools: dict[str, Pool] = {}
    for template in profile.pools:
        if _of_cluster(template):
            _add(profile, pools, template, {"driver": profile.driver})
    return _validate_pools(profile, pools)


def loop_values(profile: Profile, node_name: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the values of loops and rows for each device, by its pool and name, for its edits.

    Raises:
        DriverConfigError: like :func:`resources`.
    """
    cluster = {"driver": profile.driver}
    node = {**cluster, "node": node_name}
    pools = [(node_name, profile.devices, node)]
    for template in profile.pools:
        base = cluster if _of_cluster(template) else node
        pools.append((_fill(profile, template.name, base), template.devices, base))
    return {
        (pool, device.name): {name: value for name, value in values.items() if name not in base}
        for pool, templates, base in pools
        for template in templates
        for device, values in _expand(profile, template, base)
    }


def _of_cluster(template: PoolTemplate) -> bool:
    """True if the cluster has one pool of this template, instead of one for each node."""
    return "{node}" not in template.name and (template.node_selector is not None or template.all_nodes)


def _add(profile: Profile, pools: dict[str, Pool], template: PoolTemplate, base: Mapping[str, Any]) -> None:
    where = f"driver profile {profile.driver}: pool {template.name}"
    if template.node_selector is not None and template.all_nodes:
        raise DriverConfigError(f"{where}: either nodeSelector or allNodes")
    name = _fill(profile, template.name, base)
    if name in pools:
        raise DriverConfigError(f"{where}: there are two pools of that name")
    try:
        selector = _fill(profile, template.node_selector, base)
        chosen = None if selector is None else msgspec.convert(selector, NodeSelector)
    except msgspec.ValidationError as error:
        raise DriverConfigError(f"{where}: not a node selector: {error}") from error
    pools[name] = Pool(
        _slices(profile, template, base),
        chosen,
        template.all_nodes,
        template.generation,
    )


def _validate_pools(profile: Profile, pools: Mapping[str, Pool]) -> DriverResources:
    found = DriverResources(pools)
    try:
        validate(found)
    except PoolError as error:
        raise DriverConfigError(f"driver profile {profile.driver}: {error}") from error
    return found


def _slices(
    profile: Profile, source: Profile | PoolTemplate, base: Mapping[str, Any]
) -> tuple[PoolSlice, ...]:
    counters = list(_counter_sets(profile, source.shared_counters, base))
    devices = [d for template in source.devices for d, _ in _expand(profile, template, base)]
    return tuple(_add_slice_fields(source, slice_) for slice_ in pool(devices, counters).slices)


def _add_slice_fields(source: Profile | PoolTemplate, slice_: PoolSlice) -> PoolSlice:
    """Add the fields that the API only accepts in slices with devices or with partitions."""
    if not slice_.devices:
        return slice_
    partitions = any(device.consumes_counters for device in slice_.devices)
    return dataclasses.replace(
        slice_,
        partition_type_attribute=source.partition_type_attribute if partitions else None,
        skip_node_operations=source.skip_node_operations,
    )


def _loops(each: Mapping[str, int]) -> Iterator[dict[str, int]]:
    for numbers in itertools.product(*(range(count) for count in each.values())):
        yield dict(zip(each, numbers, strict=True))


def _counter_sets(
    profile: Profile, templates: Sequence[CounterTemplate], base: Mapping[str, Any]
) -> Iterator[CounterSet]:
    for template in templates:
        for loop in _loops(template.each):
            values = {**base, **loop}
            filled = _fill(profile, {"name": template.name, "counters": template.counters}, values)
            yield CounterSet(
                name=filled["name"],
                counters={name: Counter(value=str(value)) for name, value in filled["counters"].items()},
            )


def _rows(template: DeviceTemplate) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the position and the values for each iteration of the template's rows and loops."""
    for row, columns in enumerate(template.rows or ({},)):
        for loop in _loops(template.each):
            place = [str(row)] if template.rows else []
            yield ".".join([*place, *map(str, loop.values())]), {**columns, **loop}


def _expand(
    profile: Profile, template: DeviceTemplate, base: Mapping[str, Any]
) -> Iterator[tuple[Device, Mapping[str, Any]]]:
    if (template.device is None) == (not template.devices):
        raise DriverConfigError(f"driver profile {profile.driver}: a template needs either device or devices")
    for place, turn in _rows(template):
        values = {**base, **turn}
        # The UUID is derived from the outermost loop, so that the partitions of a GPU have the GPU's UUID.
        if turn and "uuid" not in values:
            identity = uuid.uuid5(uuid.NAMESPACE_OID, f"{base.get('node', '')}/{profile.driver}/{place}")
            values |= {"uuid": str(identity), "serial": str(identity.int % 10**_SERIAL_DIGITS)}
        if template.device is None:
            for inner in template.devices:
                yield from _expand(profile, inner, values)
            continue
        try:
            yield msgspec.convert(_fill(profile, template.device, values), Device), values
        except msgspec.ValidationError as error:
            raise DriverConfigError(f"driver profile {profile.driver}: not a device: {error}") from error


def _fill(profile: Profile, value: Any, values: Mapping[str, Any]) -> Any:
    try:
        return fill(value, values)
    except MissingValue as error:
        raise DriverConfigError(f"driver profile {profile.driver}: no value for {error}") from error
