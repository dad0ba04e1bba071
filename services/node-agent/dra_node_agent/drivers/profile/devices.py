"""The devices that a profile makes for a node."""

import itertools
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from dra_shared.api.resource import Counter, CounterSet, Device

from dra_node_agent.drivers.errors import DriverConfigError
from dra_node_agent.drivers.profile.model import DeviceTemplate, Profile
from dra_node_agent.drivers.profile.template import MissingValue, fill
from dra_node_agent.drivers.resources import DriverResources, PoolSlice

_DEVICES_PER_SLICE = 128
_DEVICES_PER_HEAVY_SLICE = 64
_COUNTER_SETS_PER_SLICE = 8


def resources(profile: Profile, node_name: str) -> DriverResources:
    """What a node with this profile publishes; its pool is called like the node.

    Raises:
        DriverConfigError: the profile's devices are not devices.
    """
    base = {"node": node_name, "driver": profile.driver}
    counters = list(_counter_sets(profile, base))
    devices = [d for template in profile.devices for d in _expand(profile, template, base)]
    names = [device.name for device in devices]
    if len(set(names)) != len(names):
        raise DriverConfigError(f"driver profile {profile.driver}: device names are not unique")
    heavy = any(device.consumes_counters or device.taints for device in devices)
    slices = [PoolSlice(shared_counters=part) for part in _parts(counters, _COUNTER_SETS_PER_SLICE)]
    slices += [
        PoolSlice(devices=part)
        for part in _parts(devices, _DEVICES_PER_HEAVY_SLICE if heavy else _DEVICES_PER_SLICE)
    ]
    return DriverResources({node_name: tuple(slices)})


def _parts(things: list[Any], size: int) -> Iterator[tuple[Any, ...]]:
    for start in range(0, len(things), size):
        yield tuple(things[start : start + size])


def _loops(each: Mapping[str, int]) -> Iterator[dict[str, int]]:
    for numbers in itertools.product(*(range(count) for count in each.values())):
        yield dict(zip(each, numbers, strict=True))


def _counter_sets(profile: Profile, base: Mapping[str, Any]) -> Iterator[CounterSet]:
    for template in profile.shared_counters:
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
            values["uuid"] = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{base['node']}/{profile.driver}/{place}"))
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
