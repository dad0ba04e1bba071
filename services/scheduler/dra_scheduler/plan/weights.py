"""The weight of allocated devices: the fraction of a whole device that each one is. And the model of each device."""

from collections.abc import Iterable, Mapping

from dra_shared.api.resource import Device, ResourceClaim, ResourceSlice

from dra_scheduler.allocator.amounts import amount

_Place = tuple[str, str, str]
# Attributes in which drivers publish the model of a device. A partition has the model of its whole device.
_MODEL_ATTRIBUTES = ("productName", "model", "product", "type")


class Weights:
    """The weights of devices: a partition counts as its part of a counter set, any other device as one.

    ``totals`` are the whole devices of each model.
    """

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        pieces = list(slices)
        counters: dict[_Place, dict[str, int]] = {}
        for piece in pieces:
            for group in piece.spec.shared_counters:
                place = piece.spec.driver, piece.spec.pool.name, group.name
                counters[place] = {name: amount(each.value) for name, each in group.counters.items()}
        self.totals: dict[str, float] = {}
        self._of: dict[_Place, tuple[float, str, Device]] = {}
        # The model of a counter set is that of the first device that consumes it.
        sets: dict[_Place, str] = {}
        for piece in pieces:
            spec = piece.spec
            for device in spec.devices:
                weight = _part(spec.driver, spec.pool.name, device, counters)
                model = model_of(spec.driver, device)
                self._of[spec.driver, spec.pool.name, device.name] = weight, model, device
                for taken in device.consumes_counters:
                    sets.setdefault((spec.driver, spec.pool.name, taken.counter_set), model)
                if not device.consumes_counters:
                    self.totals[model] = self.totals.get(model, 0.0) + 1.0
        for place in counters:
            model = sets.get(place, place[0])
            self.totals[model] = self.totals.get(model, 0.0) + 1.0

    def by_model_and_class(self, claim: ResourceClaim) -> dict[tuple[str, str], float]:
        """Return the weight of the claim's devices by model and device class."""
        found: dict[tuple[str, str], float] = {}
        classes = _classes_of(claim)
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation is not None else ():
            known = self._of.get((result.driver, result.pool, result.device))
            if known is not None and not result.admin_access:
                weight, model, device = known
                key = model, classes.get(result.request, "")
                found[key] = found.get(key, 0.0) + weight * _share(device, result.consumed_capacity)
        return found

    def device(self, driver: str, pool: str, device: str) -> tuple[float, str] | None:
        """Return the weight and the model of a device, or None if no slice publishes it."""
        known = self._of.get((driver, pool, device))
        return None if known is None else known[:2]


def _classes_of(claim: ResourceClaim) -> dict[str, str]:
    """Return the device class of each request, and of each ``request/subrequest``."""
    found: dict[str, str] = {}
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            found[request.name] = request.exactly.device_class_name
        for each in request.first_available:
            found[f"{request.name}/{each.name}"] = each.device_class_name
    return found


def model_of(driver: str, device: Device) -> str:
    """Return the model of a device: an attribute of its driver, or the driver's name."""
    for name in _MODEL_ATTRIBUTES:
        text = text_attribute(driver, device, name)
        if text:
            profile = text_attribute(driver, device, "profile")
            # A static partition counts as a whole device. A partition that consumes counters is a part of its
            # whole device.
            return f"{text} {profile}" if profile and not device.consumes_counters else text
    return driver


def text_attribute(driver: str, device: Device, name: str) -> str:
    """Return the text of an attribute, which may have the driver's domain, or an empty string."""
    attribute = device.attributes.get(name) or device.attributes.get(f"{driver}/{name}")
    return (attribute.string or "") if attribute is not None else ""


def _part(driver: str, pool: str, device: Device, counters: Mapping[_Place, Mapping[str, int]]) -> float:
    parts = [
        amount(each.value) / whole
        for taken in device.consumes_counters
        for name, each in taken.counters.items()
        if (whole := counters.get((driver, pool, taken.counter_set), {}).get(name))
    ]
    return max(parts, default=1.0)


def _share(device: Device, consumed: dict[str, str]) -> float:
    parts = [
        amount(value) / whole
        for name, value in consumed.items()
        if name in device.capacity and (whole := amount(device.capacity[name].value))
    ]
    return min(1.0, max(parts, default=1.0))
