"""Names and values of attributes and capacities in ResourceSlices, declared in the area of the slices."""

import re
from collections.abc import Iterator

from dra_shared.jsontypes import JsonObject

from dra_conformance.areas.slices import AREA, require_slices
from dra_conformance.check import Breach
from dra_conformance.session import Session

__all__ = ["AREA"]

_ATTRIBUTES = "staging/src/k8s.io/dynamic-resource-allocation/deviceattribute"
_TYPES = "staging/src/k8s.io/api/resource/v1/types.go"
_OWN_DOMAIN = "https://github.com/kubernetes/kubernetes/pull/142218"
_STANDARD_DOMAINS = ("kubernetes.io", "k8s.io")
_STANDARD = {
    "resource.kubernetes.io/pcieRoot": ("string", re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")),
    "resource.kubernetes.io/pciBusID": ("string", re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")),
    "resource.kubernetes.io/numaNode": ("int", re.compile(r"\d+")),
}
# Names that drivers used before there were standard ones.
_OWN_NAMES = {
    "pcieRoot": "resource.kubernetes.io/pcieRoot",
    "pciRoot": "resource.kubernetes.io/pcieRoot",
    "pciBusID": "resource.kubernetes.io/pciBusID",
    "pciAddress": "resource.kubernetes.io/pciBusID",
}


@AREA.check(
    "reserved-attributes",
    "only standard attributes are in Kubernetes' domains",
    promise="Attributes and capacities in kubernetes.io and k8s.io are those that Kubernetes defines.",
    source=_ATTRIBUTES,
    cost="The name may get a meaning of Kubernetes' own, and selectors that rely on it pick wrong devices.",
)
async def _check_reserved_attributes(session: Session) -> None:
    require_slices(session)
    for device in session.devices:
        for name in [*(device.spec.get("attributes") or ()), *(device.spec.get("capacity") or ())]:
            domain = name.rpartition("/")[0]
            reserved = (
                domain.endswith(tuple(f".{one}" for one in _STANDARD_DOMAINS)) or domain in _STANDARD_DOMAINS
            )
            own = domain == session.name
            if reserved and not own and name not in _STANDARD:
                raise Breach(f"device {device.name} has {name}")


@AREA.check(
    "standard-attributes",
    "standard attributes have the standard form",
    promise="pcieRoot is like pci0000:64, pciBusID like 0000:65:00.0, numaNode a number from 0.",
    source=_ATTRIBUTES,
    cost="matchAttribute across drivers, such as a GPU and a network card on one root, never matches.",
)
async def _check_standard_attributes(session: Session) -> None:
    require_slices(session)
    for device in session.devices:
        for name, (kind, form) in _STANDARD.items():
            attribute = (device.spec.get("attributes") or {}).get(name)
            if attribute is None or kind + "s" in attribute:
                continue
            if kind not in attribute or not form.fullmatch(str(attribute[kind])):
                raise Breach(f"device {device.name}: {name} is {attribute}")


@AREA.check(
    "standard-names",
    "standard attributes have their standard names",
    promise="A device's PCIe root and PCI address are published as the standard attributes, "
    "and not only as the driver's own.",
    source="https://github.com/intel/intel-resource-drivers-for-kubernetes/issues/60; " + _ATTRIBUTES,
    cost="matchAttribute cannot compare the device with another driver's.",
    recommended=True,
)
async def _check_standard_names(session: Session) -> None:
    require_slices(session)
    for device in session.devices:
        names = device.spec.get("attributes") or {}
        for own, standard in _OWN_NAMES.items():
            there = own in names or f"{session.name}/{own}" in names
            if there and standard not in names:
                raise Breach(f"device {device.name} has {own}, and not {standard}")


@AREA.check(
    "one-spelling",
    "an attribute or capacity is published once",
    promise="A device has no name both with and without the driver's domain: both mean the same.",
    source=f"{_OWN_DOMAIN}; {_TYPES} (QualifiedName)",
    cost="Selectors and constraints take either of two values, and allocation gives wrong devices.",
)
async def _check_one_spelling(session: Session) -> None:
    for device, what, name in _own_names(session):
        short = name.rpartition("/")[2]
        if short in device[what]:
            raise Breach(f"device {device['name']} has {short} and {name}")


@AREA.check(
    "short-names",
    "names do not repeat the driver's domain",
    promise="Attributes and capacities of the driver's own domain are published without it.",
    source=f"{_OWN_DOMAIN}; https://github.com/kubernetes-sigs/dra-driver-cpu/issues/327",
    cost="The helper of later releases refuses to publish such slices, and consumed capacity may have either name.",
    recommended=True,
    rests_on=("slices.one-spelling",),
)
async def _check_short_names(session: Session) -> None:
    for device, _, name in _own_names(session):
        raise Breach(f"device {device['name']} has {name}")


def _own_names(session: Session) -> Iterator[tuple[JsonObject, str, str]]:
    """Yield the devices with names that have the driver's domain, and in which field."""
    require_slices(session)
    for device in session.devices:
        for what in ("attributes", "capacity"):
            for name in device.spec.get(what) or ():
                if name.rpartition("/")[0] == session.name:
                    yield device.spec, what, name
