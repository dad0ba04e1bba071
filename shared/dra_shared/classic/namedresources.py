"""The named resources model of 1.30: its CEL expressions and its slices (`k8s.io/api/resource/v1alpha2`)."""

import re
from typing import Any

from dra_shared.classic.drivers import Driver, driver_called
from dra_shared.classic.expressions import Inexpressible, problem, spell_key, text
from dra_shared.classic.fields import Fields, take_metadata
from dra_shared.classic.notes import Notes
from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_label

_READ = re.compile(r"attributes\.(\w+)\[\s*([\"'])(.*?)\2\s*\]")
_HAS = re.compile(r"([\"'])([^\"']*)\1\s+in\s+attributes\.(\w+)")
_SPEC_VALUES = {"int": "int", "bool": "bool", "string": "string", "version": "version"}


def rewrite(expression: str, driver: Driver) -> str:
    """Convert an expression of the named resources model to v1.

    Raises:
        Inexpressible: v1's CEL cannot express it.
    """

    def place(kind: str) -> str:
        return f"device.{'capacity' if kind == 'quantity' else 'attributes'}[{text(driver.name)}]"

    def read(found: re.Match[str]) -> str:
        return f"{place(found[1])}.{spell_key(found[3])}"

    def has(found: re.Match[str]) -> str:
        return f"has({place(found[3])}.{spell_key(found[2])})"

    changed = _READ.sub(read, _HAS.sub(has, expression)).strip()
    if reason := problem(changed):
        raise Inexpressible(f"the expression is not valid in v1: {reason}")
    return changed


def resource_slice(obj: JsonObject, notes: Notes) -> list[JsonObject]:
    """Convert a ResourceSlice of v1alpha2 to v1."""
    fields = Fields(obj, notes)
    meta = take_metadata(fields)
    driver = driver_called(fields.text("driverName")).name
    node = fields.text("nodeName")
    fields.note_moved("driverName", "spec.driver")
    spec: JsonObject = {
        "driver": driver,
        "pool": {"name": node or meta.get("name", ""), "generation": 1, "resourceSliceCount": 1},
    }
    if node:
        fields.note_moved("nodeName", "spec.nodeName, and the pool's name")
        spec["nodeName"] = node
    else:
        spec["allNodes"] = True
    model = fields.inner("namedResources")
    spec["devices"] = [device for entry in model.each("instances") for device in _device(entry)]
    model.rest("the named resources model has no such field")
    fields.rest("a ResourceSlice has no such field")
    return [{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta, "spec": spec}]


def _device(entry: Fields) -> list[JsonObject]:
    name = entry.text("name")
    if dns_label(name):
        entry.note_lost("name", "a device's name is a DNS label in v1")
        return []
    entry.note_moved("name", f"spec.devices[{name}]")
    device: JsonObject = {"name": name}
    for attribute in entry.each("attributes"):
        _attribute(attribute, device)
    entry.rest("an instance has no such field")
    return [device]


def _attribute(fields: Fields, device: JsonObject) -> None:
    name = spell_key(fields.text("name"))
    for kind in [kind for kind in fields.content if kind != "name"]:
        value: Any = fields.take(kind)
        if kind == "quantity":
            device.setdefault("capacity", {})[name] = {"value": value}
            fields.note_moved("quantity", f"the device's capacity {name}")
        elif kind in _SPEC_VALUES:
            device.setdefault("attributes", {})[name] = {kind: value}
            fields.note_moved(kind, f"the device's attribute {name}")
        elif kind in ("intSlice", "stringSlice"):
            plural = "ints" if kind == "intSlice" else "strings"
            device.setdefault("attributes", {})[name] = {plural: (value or {}).get(plural) or []}
            fields.note_moved(kind, f"the device's attribute {name}, a list (gate DRAListTypeAttributes)")
        else:
            fields.note_lost(kind, "no type of attribute in v1")
