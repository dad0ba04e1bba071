"""Convert claims and their templates: `resourceClassName`, `parametersRef`, `allocationMode` become requests
of v1.
"""

from collections.abc import Sequence
from dataclasses import replace

from dra_shared.classic.asked import Asked, ClassParts, Parameters
from dra_shared.classic.classes import V1, cel, class_called, default_request
from dra_shared.classic.drivers import GPU_CLASS, MIG_CLASS, NVIDIA, driver_called
from dra_shared.classic.expressions import of_type
from dra_shared.classic.fields import Fields, take_metadata
from dra_shared.classic.notes import Notes
from dra_shared.classic.world import World
from dra_shared.jsontypes import JsonObject


def resource_claim(obj: JsonObject, world: World, notes: Notes) -> list[JsonObject]:
    """Convert a claim with `resourceClassName` to v1."""
    fields = Fields(obj, notes)
    meta = take_metadata(fields)
    spec = {"devices": _devices(fields.inner("spec"), world, meta.get("namespace", ""))}
    if fields.take("status"):
        fields.note_implied("status", "the cluster writes this")
    fields.rest("a ResourceClaim has no such field")
    return [{"apiVersion": V1, "kind": "ResourceClaim", "metadata": meta, "spec": spec}]


def resource_claim_template(obj: JsonObject, world: World, notes: Notes) -> list[JsonObject]:
    """Convert a claim template with `resourceClassName` to v1."""
    fields = Fields(obj, notes)
    meta = take_metadata(fields)
    outer = fields.inner("spec")
    spec: JsonObject = {"spec": {"devices": _devices(outer.inner("spec"), world, meta.get("namespace", ""))}}
    if inner_meta := outer.take("metadata"):
        outer.notes.note_same(outer.path("metadata"))
        spec = {"metadata": inner_meta, **spec}
    outer.rest("a ResourceClaimTemplate has no such field")
    fields.rest("a ResourceClaimTemplate has no such field")
    return [{"apiVersion": V1, "kind": "ResourceClaimTemplate", "metadata": meta, "spec": spec}]


def _devices(spec: Fields, world: World, namespace: str) -> JsonObject:
    name = spec.text("resourceClassName")
    parts = class_called(name, world)
    spec.note_moved("resourceClassName", "spec.devices.requests[].exactly.deviceClassName")
    mode = spec.text("allocationMode")
    if mode == "Immediate":
        spec.note_lost("allocationMode", "v1 allocates when the first pod needs the claim, and never before")
    elif mode:
        spec.note_implied("allocationMode", "v1 always waits for the first pod")
    asked = world.read_referenced(spec, "parametersRef", namespace, parts.driver)
    if asked is None and "parametersRef" not in spec.content:
        asked = parts.default_claim
    spec.rest("a claim with resourceClassName has no such field")
    asked = asked or Parameters()
    if not parts.driver:
        parts = replace(parts, driver=asked.driver)
    if not parts.driver and any(one.driver for one in asked.requests):
        spec.note_lost(
            "resourceClassName",
            f"ResourceClass {name} is missing and the parameters name several drivers: "
            "each request gets the DeviceClass with its driver's name",
        )
    return _requests(asked, parts)


def _requests(asked: Parameters, parts: ClassParts) -> JsonObject:
    wanted = list(asked.requests)
    if not wanted and asked.open_ended:
        wanted = [Asked()]
    default = default_request(parts)
    requests: list[JsonObject] = []
    configs: list[JsonObject] = [
        {"opaque": {"driver": driver, "parameters": content}} for driver, content in asked.configs
    ]
    wanted = [one.over(default) for one in wanted]
    for name, one in zip(_names(wanted, parts), wanted, strict=True):
        requests.append(_request(name, one, parts))
        if one.config is not None:
            driver = one.driver or parts.driver
            configs.append({"requests": [name], "opaque": {"driver": driver, "parameters": one.config}})
    devices: JsonObject = {"requests": requests}
    if configs:
        devices["config"] = configs
    return devices


def _names(wanted: Sequence[Asked], parts: ClassParts) -> list[str]:
    """Return a name for each request: its type of device, with a number if there are several."""
    default = default_request(parts).type or ("gpu" if driver_called(parts.driver) is NVIDIA else "device")
    if len(wanted) == 1:
        return [wanted[0].type or default]
    return [f"{one.type or default}-{number}" for number, one in enumerate(wanted)]


def _request(name: str, asked: Asked, parts: ClassParts) -> JsonObject:
    driver = driver_called(asked.driver or parts.driver)
    class_name, selectors = asked.device_class or parts.name, list(asked.selectors)
    type_ = asked.type or ("gpu" if driver.partitioned and not asked.driver else "")
    if asked.driver and driver.name != parts.driver:
        # The claim's class belongs to another driver.
        class_name = driver.name
    elif asked.device_class:
        selectors = [*parts.selectors, *selectors]
    if class_name == GPU_CLASS and driver is NVIDIA and type_ == "mig":
        # Upstream's class of that name selects whole GPUs.
        class_name, selectors = MIG_CLASS, [*parts.selectors, *selectors]
    chosen = class_name in (GPU_CLASS, MIG_CLASS) or any(of_type(driver, type_) in one for one in selectors)
    if type_ and not chosen:
        selectors = [of_type(driver, type_), *selectors]
    exactly: JsonObject = {"deviceClassName": class_name}
    if selectors:
        exactly["selectors"] = [cel(selector) for selector in selectors]
    exactly |= {"allocationMode": "ExactCount", "count": asked.count or 1}
    return {"name": name, "exactly": exactly}
