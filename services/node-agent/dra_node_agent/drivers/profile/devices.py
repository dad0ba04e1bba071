"""The devices that a profile makes for a node."""

import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from dra_shared.api.node import NodeSelector
from dra_shared.api.resource import Counter, CounterSet, Device

from dra_node_agent.drivers.errors import DriverConfigError
from dra_node_agent.drivers.profile.model import CounterTemplate, DeviceTemplate, PoolTemplate, Profile
from dra_node_agent.drivers.profile.template import MissingValue, fill
from dra_node_agent.drivers.resources import DriverResources, Pool, PoolError, PoolSlice, validate

_DEVICES_PER_SLICE = 128
_DEVICES_PER_HEAVY_SLICE = 64
_COUNTER_SETS_PER_SLICE = 8


def resources(profile: Profile, node_name: str) -> DriverResources:
    """What a node with this profile publishes: its own pool, which is called like the node, and further ones.

    Raises:
        DriverConfigError: the profile's devices are not devices, or its pools contradict themselves.
    """
    base = {"node": node_name, "driver": profile.driver}
    own = _slices(profile, profile.devices, profile.shared_counters, base)
    pools = {node_name: Pool(own, generation=profile.generation)}
    for template in profile.pools:
        if "{node}" in template.name or _of_one_node(template):
            _add(profile, pools, template, base)
    return _checked(profile, pools)


def cluster_resources(profile: Profile) -> DriverResources:
    """The pools that belong to no node: those whose name does not have ``{node}``.

    Raises:
        DriverConfigError: as :func:`resources`.
    """
    pools: dict[str, Pool] = {}
    for template in profile.pools:
        if "{node}" not in template.name and not _of_one_node(template):
            _add(profile, pools, template, {"driver": profile.driver})
    return _checked(profile, pools)


def _of_one_node(template: PoolTemplate) -> bool:
    return template.node_selector is None and not template.all_nodes


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
        _slices(profile, template.devices, template.shared_counters, base),
        chosen,
        template.all_nodes,
        template.generation,
    )


def _checked(profile: Profile, pools: Mapping[str, Pool]) -> DriverResources:
    found = DriverResources(pools)
    try:
        validate(found)
    except PoolError as error:
        raise DriverConfigError(f"driver profile {profile.driver}: {error}") from error
    return found


def _slices(
    profile: Profile,
    templates: Sequence[DeviceTemplate],
    counter_templates: Sequence[CounterTemplate],
    base: Mapping[str, Any],
) -> tuple[PoolSlice, ...]:
    counters = list(_counter_sets(profile, counter_templates, base))
    devices = [d for template in templates for d in _expand(profile, template, base)]
    heavy = any(device.consumes_counters or device.taints for device in devices)
    slices = [PoolSlice(shared_counters=part) for part in _parts(counters, _COUNTER_SETS_PER_SLICE)]
    slices += [
        PoolSlice(devices=part)
        for part in _parts(devices, _DEVICES_PER_HEAVY_SLICE if heavy else _DEVICES_PER_SLICE)
    ]
    return tuple(slices)


def _parts(things: list[Any], size: int) -> Iterator[tuple[Any, ...]]:
    for start in range(0, len(things), size):
        yield tuple(things[start : start + size])


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


def _expand(profile: Profile, template: DeviceTemplate, base: Mapping[str, Any]) -> Iterator[Device]:
    if (template.device is None) == (not template.devices):
        raise DriverConfigError(f"driver profile {profile.driver}: a template needs either device or devices")
    for loop in _loops(template.each):
        values = {**base, **loop}
        # A UUID belongs to the outermost thing: the partitions of a GPU show the GPU's.
        if loop and "uuid" not in values:
            place = ".".join(map(str, loop.values()))
            values["uuid"] = str(
                uuid.uuid5(uuid.NAMESPACE_OID, f"{base.get('node', '')}/{profile.driver}/{place}")
            )
        if template.device is None:
            for inner in template.devices:
                yield from _expand(profile, inner, values)
            continue
        try:
            yield msgspec.convert(_fill(profile, template.device, values), Device)
        except msgspec.ValidationError as error:
            raise DriverConfigError(f"driver profile {profile.driver}: not a device: {error}") from error


def _fill(profile: Profile, value: Any, values: Mapping[str, Any]) -> Any:
    try:
        return fill(value, values)
    except MissingValue as error:
        raise DriverConfigError(f"driver profile {profile.driver}: no value for {error}") from error
