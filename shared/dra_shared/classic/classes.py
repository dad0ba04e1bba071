"""Convert ResourceClass, and the DeviceClass of a driver's own group, to DeviceClass of v1."""

from dra_shared.classic.asked import Asked, ClassParts, Parameters
from dra_shared.classic.drivers import GPU_CLASS, NVIDIA, Driver, driver_called, driver_of_group, known_name
from dra_shared.classic.expressions import of_class, of_driver
from dra_shared.classic.fields import Fields, take_metadata
from dra_shared.classic.notes import Notes
from dra_shared.classic.parameters import IN_TREE_GROUP
from dra_shared.classic.selectors import conditions
from dra_shared.classic.world import World, group_of
from dra_shared.jsontypes import JsonObject

V1 = "resource.k8s.io/v1"


def _content(fields: Fields) -> Fields:
    """Return the fields of a class: top-level in Kubernetes, below `spec` in some documents."""
    return fields.inner("spec") if isinstance(fields.content.get("spec"), dict) else fields


def class_parts(obj: JsonObject, world: World, notes: Notes) -> ClassParts:
    """Return the content of a ResourceClass, and note the result for each of its fields."""
    fields = Fields(obj, notes)
    meta = take_metadata(fields)
    spec = _content(fields)
    name = "driver" if "driverName" not in spec.content and "driver" in spec.content else "driverName"
    old = spec.text(name)
    driver = driver_called(old or meta.get("name", ""))
    if old:
        spec.note_moved(name, f"spec.selectors[0]: {of_driver(driver.name)}")
    else:
        spec.note_lost(name, f"the class names no driver; {driver.name} is assumed")
    if old and driver.name != old:
        spec.note_moved(name, f"the driver of that name is {driver.name} today")
    if spec.take("structuredParameters"):
        spec.note_implied("structuredParameters", "v1 always uses structured parameters")
    elif "structuredParameters" in spec.content:
        spec.note_lost(
            "structuredParameters",
            "drivers do not allocate devices in v1: the driver must publish ResourceSlices",
        )
    if spec.take("suitableNodes"):
        spec.note_lost(
            "suitableNodes", "a class selects devices and not nodes: ResourceSlices say where devices are"
        )
    defaults = world.read_referenced(spec, "parametersRef", "", driver.name)
    claim = world.read_referenced(spec, "defaultClaimParametersRef", "", driver.name)
    spec.rest("a ResourceClass has no such field")
    if spec is not fields:
        fields.rest("a ResourceClass has no such field")
    found = defaults or Parameters()
    return ClassParts(meta.get("name", ""), driver.name, found, found.selectors, claim)


def class_called(name: str, world: World) -> ClassParts:
    """Return the known content of a ResourceClass.

    Without the object, only the names of known drivers reveal the driver.
    """
    known = world.classes.get(name)
    if known is None:
        obj = world.find(IN_TREE_GROUP, "ResourceClass", "", name)
        found = class_parts(obj, world, Notes("")) if obj is not None else None
        known = world.classes[name] = found or ClassParts(name, known_name(name))
    return known


def resource_class(obj: JsonObject, world: World, notes: Notes) -> list[JsonObject]:
    """Convert a ResourceClass to a DeviceClass."""
    parts = class_parts(obj, world, notes)
    driver = driver_called(parts.driver)
    selectors = [own_selector(parts.name, driver), *parts.selectors]
    spec: JsonObject = {"selectors": [cel(expression) for expression in selectors]}
    configs = [*parts.defaults.configs]
    for asked in parts.defaults.requests:
        selectors_of = [cel(expression) for expression in asked.selectors if asked.type != "mig"]
        spec["selectors"] += selectors_of
        if asked.config is not None:
            configs.append((parts.driver, asked.config))
    if configs:
        spec["config"] = [{"opaque": {"driver": name, "parameters": content}} for name, content in configs]
    return [
        {
            "apiVersion": V1,
            "kind": "DeviceClass",
            "metadata": take_metadata(Fields(obj, Notes(""))),
            "spec": spec,
        }
    ]


def own_selector(name: str, driver: Driver) -> str:
    """Return the selector of all devices of a class. The class with the driver's name selects whole GPUs."""
    return of_class(driver, "gpu" if name == GPU_CLASS and driver is NVIDIA else "")


def vendor_class(obj: JsonObject, world: World, notes: Notes) -> list[JsonObject]:
    """Convert a DeviceClass of a driver's own group, with matchExpressions, to v1."""
    fields = Fields(obj, notes)
    meta = take_metadata(fields)
    meta.pop("namespace", None)
    driver = driver_of_group(group_of(obj)) or Driver(group_of(obj))
    spec = fields.inner("spec")
    selectors = [of_class(driver)]
    name = "selector" if "selector" in spec.content else "selectors"
    if isinstance(spec.content.get(name), list):
        for entry in spec.each(name):
            selectors += conditions(entry, driver, "spec.selectors")
    else:
        selectors += conditions(spec.inner(name), driver, "spec.selectors")
    if old := spec.text("driverName"):
        driver = driver_called(old)
        selectors[0] = of_class(driver)
        spec.note_moved("driverName", "spec.selectors[0]")
    spec.rest("a DeviceClass of the driver has no such field")
    fields.rest("a DeviceClass of the driver has no such field")
    return [
        {
            "apiVersion": V1,
            "kind": "DeviceClass",
            "metadata": meta,
            "spec": {"selectors": [cel(expression) for expression in selectors]},
        }
    ]


def cel(expression: str) -> JsonObject:
    """Return a selector with the expression."""
    return {"cel": {"expression": expression}}


def default_request(parts: ClassParts) -> Asked:
    """Return the class's defaults for requests."""
    return parts.defaults.requests[0] if parts.defaults.requests else Asked()
