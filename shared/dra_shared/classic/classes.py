"""Classes: ResourceClass, and the DeviceClass of a driver's own group, become DeviceClass of v1."""

from dra_shared.classic.asked import Asked, ClassParts, Parameters
from dra_shared.classic.drivers import GPU_CLASS, NVIDIA, Driver, driver_called, driver_of_group, known_name
from dra_shared.classic.expressions import of_class, of_driver
from dra_shared.classic.fields import Fields, Object, taken_metadata
from dra_shared.classic.notes import Notes
from dra_shared.classic.parameters import IN_TREE_GROUP
from dra_shared.classic.selectors import conditions
from dra_shared.classic.world import World, group_of

V1 = "resource.k8s.io/v1"


def _content(fields: Fields) -> Fields:
    """The fields of a class: at its top in Kubernetes, below `spec` in documents."""
    return fields.inner("spec") if isinstance(fields.content.get("spec"), dict) else fields


def class_parts(obj: Object, world: World, notes: Notes) -> ClassParts:
    """What a ResourceClass says, noting what became of it."""
    fields = Fields(obj, notes)
    meta = taken_metadata(fields)
    spec = _content(fields)
    name = "driver" if "driverName" not in spec.content and "driver" in spec.content else "driverName"
    old = spec.text(name)
    driver = driver_called(old or meta.get("name", ""))
    if old:
        spec.moved(name, f"spec.selectors[0]: {of_driver(driver.name)}")
    else:
        spec.lost(name, f"the class has no driver; {driver.name} is taken for it")
    if old and driver.name != old:
        spec.moved(name, f"the driver of that name is {driver.name} today")
    if spec.take("structuredParameters"):
        spec.implied("structuredParameters", "all allocation is by structured parameters")
    elif "structuredParameters" in spec.content:
        spec.lost("structuredParameters", "no driver allocates by itself: it must publish ResourceSlices")
    if spec.take("suitableNodes"):
        spec.lost(
            "suitableNodes", "a class selects devices and not nodes: ResourceSlices say where devices are"
        )
    defaults = world.referenced(spec, "parametersRef", "", driver.name)
    claim = world.referenced(spec, "defaultClaimParametersRef", "", driver.name)
    spec.rest("a ResourceClass has no such field")
    if spec is not fields:
        fields.rest("a ResourceClass has no such field")
    found = defaults or Parameters()
    return ClassParts(meta.get("name", ""), driver.name, found, found.selectors, claim)


def class_called(name: str, world: World) -> ClassParts:
    """Return what is known of a ResourceClass. Without the class, only the name of a known driver says its driver."""
    known = world.classes.get(name)
    if known is None:
        obj = world.find(IN_TREE_GROUP, "ResourceClass", "", name)
        found = class_parts(obj, world, Notes("")) if obj is not None else None
        known = world.classes[name] = found or ClassParts(name, known_name(name))
    return known


def resource_class(obj: Object, world: World, notes: Notes) -> list[Object]:
    """A ResourceClass as a DeviceClass."""
    parts = class_parts(obj, world, notes)
    driver = driver_called(parts.driver)
    selectors = [own_selector(parts.name, driver), *parts.selectors]
    spec: Object = {"selectors": [cel(expression) for expression in selectors]}
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
            "metadata": taken_metadata(Fields(obj, Notes(""))),
            "spec": spec,
        }
    ]


def own_selector(name: str, driver: Driver) -> str:
    """What all devices of a class have in common; the class of the driver's name is of its whole GPUs."""
    return of_class(driver, "gpu" if name == GPU_CLASS and driver is NVIDIA else "")


def vendor_class(obj: Object, world: World, notes: Notes) -> list[Object]:
    """A DeviceClass of a driver's own group, with matchExpressions, as one of v1."""
    fields = Fields(obj, notes)
    meta = taken_metadata(fields)
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
        spec.moved("driverName", "spec.selectors[0]")
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


def cel(expression: str) -> Object:
    """A selector."""
    return {"cel": {"expression": expression}}


def default_request(parts: ClassParts) -> Asked:
    """What the class says of requests that say nothing."""
    return parts.defaults.requests[0] if parts.defaults.requests else Asked()
