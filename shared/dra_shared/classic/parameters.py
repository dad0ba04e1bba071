"""Parameters of claims and classes: those of known drivers, and the in-tree ones of 1.30.

NVIDIA's are `api/nvidia.com/resource/gpu/v1alpha1` of its old repository, the example driver's
`api/example.com/resource/gpu/v1alpha1`. Some documents write GpuClaimParameters of gpu.nvidia.com/v1 with
`deviceClassName` and `mig.profile`.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dra_shared.classic.asked import Asked, Parameters
from dra_shared.classic.drivers import EXAMPLE, NVIDIA, Driver, driver_called, driver_of_group
from dra_shared.classic.expressions import Inexpressible, Key, compare, of_profile, one_of
from dra_shared.classic.fields import Fields, take_metadata
from dra_shared.classic.namedresources import rewrite
from dra_shared.classic.notes import Notes
from dra_shared.classic.selectors import conditions
from dra_shared.classic.sharing import sharing_config
from dra_shared.jsontypes import JsonObject

_REQUEST = "the claim's request"
_NO_DRIVER = "their driver is not known either, because no ResourceClass of the manifests names it"
_UNKNOWN = "how the driver is configured for this in v1 is not known"
_COMPUTE_INSTANCE = re.compile(r"\d+c\.(.+)")
IN_TREE_GROUP = "resource.k8s.io"
CLAIM_KINDS = frozenset(
    {
        "ComputeInstanceClaimParameters",
        "ComputeInstanceParameters",
        "GpuClaimParameters",
        "MigDeviceClaimParameters",
        "ResourceClaimParameters",
    }
)
CLASS_KINDS = frozenset({"DeviceClassParameters", "GpuClassParameters", "ResourceClassParameters"})


def parameters(obj: JsonObject, notes: Notes) -> Parameters:
    """Read a parameters object."""
    fields = Fields(obj, notes)
    take_metadata(fields)
    group, kind = obj.get("apiVersion", "").rpartition("/")[0], obj.get("kind", "")
    if group == IN_TREE_GROUP:
        found = _in_tree(fields, kind)
    else:
        driver = driver_of_group(group) or Driver(group)
        spec = fields.inner("spec")
        reader = _READERS.get(kind, _gpu)
        found = replace(reader(spec, driver), driver=driver.name)
        spec.rest(f"{kind} has no such field, and v1 no counterpart")
    fields.take("status")
    fields.rest(f"{kind} has no such field")
    return found


def _gpu(spec: Fields, driver: Driver) -> Parameters:
    """Read GpuClaimParameters, and GpuClassParameters, whose fields are the same and give defaults."""
    mig = spec.inner("mig")
    profile = mig.text("profile")
    selectors = conditions(spec.inner("selector"), driver, f"{_REQUEST}: a selector")
    for name in ("memory", "computeCapability", "cudaComputeCapability", "architecture", "productName"):
        selectors += _at_least(spec, driver, name)
    sharing = spec.inner("sharing")
    if sharing.content.get("strategy") == "MIG":
        # Some documents request a MIG device below ``sharing``.
        sharing.take("strategy")
        sharing.note_moved("strategy", "type mig of the request's devices")
        mig = sharing.inner("mig")
        profile = profile or mig.text("profile")
    type_ = "mig" if profile else ""
    if profile:
        selectors.append(_profile(mig, "profile", driver, profile))
    mig.rest("v1 selects a MIG device by its profile only")
    shareable(spec)
    device_class = spec.text("deviceClassName")
    if device_class:
        spec.note_moved("deviceClassName", f"{_REQUEST}: exactly.deviceClassName")
    return Parameters(
        (
            Asked(
                count=_count(spec),
                type=type_,
                device_class=device_class,
                selectors=tuple(selectors),
                config=sharing_config(sharing, driver, bool(profile)),
            ),
        ),
        open_ended=not profile and not device_class,
    )


def _at_least(spec: Fields, driver: Driver, name: str) -> list[str]:
    """Return the condition for a plain field of some documents. Amounts and versions are minimums."""
    if name not in spec.content or isinstance(spec.content[name], dict):
        return []
    value = str(spec.take(name))
    try:
        key = Key(driver, "cudaComputeCapability" if name == "computeCapability" else name)
        ordered = name in ("memory", "computeCapability", "cudaComputeCapability")
        expression = compare(key, ">=", value) if ordered else one_of(key, [value])
    except Inexpressible as error:
        spec.note_lost(name, str(error))
        return []
    spec.note_moved(name, f"{_REQUEST}: a selector: {expression}")
    return [expression]


def _count(spec: Fields) -> int | None:
    if "count" not in spec.content:
        return None
    count = spec.take("count")
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        spec.note_lost("count", f"{count!r} is not a number of devices")
        return None
    spec.note_moved("count", f"{_REQUEST}: exactly.count")
    return count


def _profile(fields: Fields, name: str, driver: Driver, profile: str) -> str:
    expression = of_profile(driver, profile.lower())
    fields.note_moved(name, f"{_REQUEST}: a selector: {expression}")
    return expression


def _mig(spec: Fields, driver: Driver) -> Parameters:
    selectors = []
    if profile := spec.text("profile"):
        selectors.append(_profile(spec, "profile", driver, profile))
    if spec.text("gpuClaimName"):
        spec.note_lost(
            "gpuClaimName", "a constraint such as parentUUID ties requests of one claim, and not two claims"
        )
    config = sharing_config(spec.inner("sharing"), driver, True)
    return Parameters((Asked(type="mig", selectors=tuple(selectors), config=config),), open_ended=False)


def _compute_instance(spec: Fields, driver: Driver) -> Parameters:
    selectors: list[str] = []
    profile = spec.text("profile")
    if found := _COMPUTE_INSTANCE.fullmatch(profile.lower()):
        spec.note_lost("profile", f"compute instances are not devices; the claim gets a whole {found[1]}")
        selectors.append(of_profile(driver, found[1]))
    elif profile:
        spec.note_lost("profile", "compute instances are not devices; the claim gets a MIG device")
    if spec.text("migDeviceClaimName"):
        spec.note_lost("migDeviceClaimName", "compute instances are not devices")
    return Parameters((Asked(type="mig", selectors=tuple(selectors)),), open_ended=False)


def _device_class(spec: Fields, driver: Driver) -> Parameters:
    """Read DeviceClassParameters. NVIDIA's say whether claims are shared, the example driver's select devices."""
    shareable(spec)
    for entry in spec.each("deviceSelector"):
        type_, name = entry.text("type"), entry.text("name")
        if type_ == "gpu" and name == "*" and driver is EXAMPLE:
            entry.note_implied("", "all devices of the driver are GPUs")
        else:
            entry.note_lost("", "the driver publishes neither the type nor such a name as an attribute")
    return Parameters()


def shareable(fields: Fields) -> None:
    """Note how a field that lets several pods share a claim was converted."""
    for name in ("shareable", "sharable"):
        if name not in fields.content:
            continue
        if fields.take(name):
            fields.note_implied(name, "any number of pods may name a claim")
        else:
            fields.note_lost(
                name, "any pod of the namespace may name a claim; one for each pod comes from a template"
            )


_READERS: dict[str, Callable[[Fields, Driver], Parameters]] = {
    "ComputeInstanceClaimParameters": _compute_instance,
    "ComputeInstanceParameters": _compute_instance,
    "DeviceClassParameters": _device_class,
    "MigDeviceClaimParameters": _mig,
}


def _in_tree(fields: Fields, kind: str) -> Parameters:
    """Read ResourceClaimParameters and ResourceClassParameters of v1alpha2."""
    if fields.take("generatedFrom"):
        fields.note_implied(
            "generatedFrom", "drivers no longer generate parameters: the claim itself has the requests"
        )
    shareable(fields)
    if kind == "ResourceClassParameters":
        return _class_filters(fields)
    requests: list[Asked] = []
    configs: list[tuple[str, JsonObject]] = []
    for entry in fields.each("driverRequests"):
        driver = driver_called(entry.text("driverName"))
        entry.note_moved("driverName", f"requests of a class of {driver.name}")
        configs += _vendor(entry, "vendorParameters", driver, "config for all requests")
        for request in entry.each("requests"):
            requests.append(_read_named(request, driver))
            request.rest("a request has no such field")
        entry.rest("driverRequests has no such field")
    drivers = {one.driver for one in requests} | {driver for driver, _ in configs}
    single = drivers.pop() if len(drivers) == 1 else ""
    return Parameters(tuple(requests), configs=tuple(configs), open_ended=False, driver=single)


def _read_named(request: Fields, driver: Driver) -> Asked:
    selectors = _cel(request.inner("namedResources"), driver)
    configs = _vendor(request, "vendorParameters", driver, "config for the request")
    return Asked(selectors=selectors, config=configs[0][1] if configs else None, driver=driver.name)


def _cel(model: Fields, driver: Driver) -> tuple[str, ...]:
    expression = model.text("selector")
    model.rest("the named resources model has no such field")
    if not expression:
        return ()
    try:
        changed = rewrite(expression, driver)
    except Inexpressible as error:
        model.note_lost("selector", str(error))
        return ()
    if changed == "true":
        model.note_implied("selector", "all devices of the class")
        return ()
    model.note_moved("selector", f"a selector: {changed}")
    return (changed,)


def _class_filters(fields: Fields) -> Parameters:
    selectors: list[str] = []
    configs: list[tuple[str, JsonObject]] = []
    for entry in fields.each("filters"):
        driver = driver_called(entry.text("driverName"))
        entry.note_implied("driverName", "the class selects its driver's devices")
        selectors += _cel(entry.inner("namedResources"), driver)
        entry.rest("a filter has no such field")
    for entry in fields.each("vendorParameters"):
        driver = driver_called(entry.text("driverName"))
        entry.note_moved("driverName", "the DeviceClass: spec.config[].opaque.driver")
        configs += _vendor(entry, "parameters", driver, "the DeviceClass: spec.config[].opaque.parameters")
        entry.rest("vendorParameters has no such field")
    return Parameters(selectors=tuple(selectors), configs=tuple(configs))


def _vendor(fields: Fields, name: str, driver: Driver, where: str) -> list[tuple[str, JsonObject]]:
    """Read opaque parameters. NVIDIA's old ones are converted to their current form."""
    value: Any = fields.take(name)
    if not isinstance(value, dict) or not value:
        return []
    if driver is NVIDIA and value.get("kind") in CLAIM_KINDS | CLASS_KINDS:
        spec = Fields(value.get("spec"), fields.notes, f"{fields.path(name)}.spec")
        config = sharing_config(spec.inner("sharing"), driver, value["kind"].startswith("Mig"))
        if config is None:
            fields.note_implied(name, "has no setting that the driver still needs")
            return []
        return [(driver.name, config)]
    fields.note_moved(name, f"{where}; check that the driver still accepts this kind")
    return [(driver.name, value)]


def read_unknown(obj: JsonObject, driver: str, notes: Notes) -> Parameters:
    """Read parameters of an unknown kind: their count, and the whole object as an opaque config of ``driver``.

    Without a driver there is no config, and every other field is lost.
    """
    fields = Fields(obj, notes)
    take_metadata(fields)
    fields.take("status")
    whom = f"{driver} gets them as an opaque config and must accept their kind" if driver else _NO_DRIVER
    notes.note_lost(
        "", f"parameters of an unknown kind: {whom}; add what they request to spec.devices.requests"
    )
    spec = fields.inner("spec")
    requests = (Asked(count=count),) if (count := _count(spec)) else ()
    if not driver:
        spec.rest(_UNKNOWN)
        fields.rest(_UNKNOWN)
        return Parameters(requests)
    content = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
    return Parameters(requests, configs=((driver, content),))
