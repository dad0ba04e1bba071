"""Requirements of a pod that nothing in the cluster meets: attributes, values, capacities and names.

Messages suggest the most similar existing name or value. Upstream has no counterpart. Example: a class written
for ``NVIDIA A100`` does not select ``NVIDIA A100-SXM4-40GB``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from dra_shared.api.pod import Pod
from dra_shared.api.resource import (
    DeviceConstraint,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from dra_shared.cel import CelDevice, CompileError, EvaluationError

from dra_scheduler.allocator.programs import compile_selector
from dra_scheduler.dra.classes import IMPLICIT_PREFIX
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.lacking import Entry, lacks_attribute, lacks_capacity, shortfalls
from dra_scheduler.explain.near import names_hint
from dra_scheduler.explain.report import ClassReport, SelectorReport
from dra_scheduler.explain.selectors import class_expressions, expressions
from dra_scheduler.framework.resources import extended_requests

_Part = ExactDeviceRequest | DeviceSubRequest


class Shortfalls:
    """Finds requirements that no published device meets. Results are cached until slices or classes change.

    ``offered`` returns the resources that nodes offer. With ``extended`` (gate DRAExtendedResource), device
    classes provide extended resources.
    """

    def __init__(
        self,
        manager: DRAManager,
        offered: Callable[[], Iterable[str]] = tuple,
        *,
        extended: bool = True,
    ) -> None:
        self._manager = manager
        self._offered = offered
        self._extended = extended
        self._known: dict[tuple[str, str], tuple[str, ...]] = {}
        self._members: dict[str, list[Entry]] = {}
        self._published: list[Entry] | None = None
        manager.slices.add_listener(lambda old, new: self._forget())
        manager.classes.add_listener(self._forget)

    def _forget(self) -> None:
        self._known.clear()
        self._members.clear()
        self._published = None

    def of_pod(self, pod: Pod, claims: Iterable[ResourceClaim]) -> tuple[str, ...]:
        """Return the unmet requirements of the claims' classes, requests and constraints, and of extended resources."""
        found: dict[str, None] = {}
        for resource in extended_requests(pod):
            found |= dict.fromkeys(self._of_resource(resource))
        for claim in claims:
            if claim.status.allocation is not None:
                continue
            if not self._manager.slices.list():
                found["no ResourceSlice publishes any device"] = None
            for request in claim.spec.devices.requests:
                for name, part in parts_of(request):
                    found |= dict.fromkeys(self._of_part(name, part))
            for index, constraint in enumerate(claim.spec.devices.constraints):
                found |= dict.fromkeys(self._of_constraint(claim, index, constraint))
        return tuple(found)

    def _of_resource(self, resource: str) -> Iterator[str]:
        """Yield the shortfalls of the class behind an extended resource, or a message if there is no class."""
        device_class = self._manager.classes.for_resource(resource)
        offered = set(self._offered())
        if device_class is not None and self._extended:
            name = device_class.metadata.name
            yield from (f"class {name}: {text}" for text in self._of("", class_expressions(device_class)))
        elif resource in offered:
            return
        elif device_class is not None:
            yield (
                f"extended resource {resource}: device class {device_class.metadata.name} stands for it, "
                "but the feature gate DRAExtendedResource is disabled"
            )
        elif resource.startswith(IMPLICIT_PREFIX):
            wanted = resource.removeprefix(IMPLICIT_PREFIX)
            names = [each.metadata.name for each in self._manager.classes.list()]
            yield f"extended resource {resource}: there is no device class {wanted}{names_hint(wanted, names)}"
        else:
            names = [each.spec.extended_resource_name or "" for each in self._manager.classes.list()]
            others = {name for name in (*names, *offered) if "/" in name}
            text = "no device class has it as its extendedResourceName, and no node offers it"
            yield f"extended resource {resource}: {text}{names_hint(resource, others)}"

    def _of_part(self, name: str, part: _Part) -> Iterator[str]:
        class_name = part.device_class_name
        device_class = self._manager.classes.get(class_name)
        if device_class is None:
            names = [each.metadata.name for each in self._manager.classes.list()]
            yield f"request {name}: there is no device class {class_name}{names_hint(class_name, names)}"
        for text in self._of("", class_expressions(device_class)):
            yield f"class {class_name}: {text}"
        for text in self._of(class_name, expressions(part.selectors)):
            yield f"request {name}: {text}"
        members = self._of_class(class_name)
        for capacity in part.capacity.requests if part.capacity is not None else ():
            what = f"device of class {class_name}"
            text = lacks_capacity(capacity, members, what)
            if text:
                yield f"request {name}: {text}"

    def _of_constraint(self, claim: ResourceClaim, index: int, constraint: DeviceConstraint) -> Iterator[str]:
        """Yield a message for each request of the constraint for which no selected device has the attribute."""
        attribute = constraint.match_attribute or constraint.distinct_attribute
        if attribute is None:
            return
        for request in claim.spec.devices.requests:
            parts = [
                part
                for name, part in parts_of(request)
                if not constraint.requests
                or request.name in constraint.requests
                or name in constraint.requests
            ]
            if any(attribute == each.name for part in parts for each in part.derived_attributes):
                continue
            classes = dict.fromkeys(part.device_class_name for part in parts)
            members = [entry for name in classes for entry in self._of_class(name)]
            text = lacks_attribute(attribute, members, f"device of class {' or '.join(classes)}")
            if text:
                yield f"constraint #{index} of claim {claim.key}: {text}"

    def device_class(self, name: str) -> ClassReport | None:
        """Return the devices that the class selects and why it selects no others, or None if it does not exist."""
        device_class = self._manager.classes.get(name)
        if device_class is None:
            return None
        selectors = tuple(self._selector(text) for text in class_expressions(device_class))
        chosen = set(range(len(self._devices())))
        for selector in selectors:
            chosen &= self._select(selector.expression)[0]
        return ClassReport(
            device_class=name, devices=len(self._devices()), selected=len(chosen), selectors=selectors
        )

    def _selector(self, expression: str) -> SelectorReport:
        chosen, errors = self._select(expression)
        return SelectorReport(
            expression=expression,
            selected=len(chosen),
            errors=errors,
            shortfalls=self._of("", [expression]),
        )

    def _select(self, expression: str) -> tuple[set[int], dict[str, int]]:
        """Return the numbers of the devices that the selector accepts, and how many it fails for, by error."""
        chosen: set[int] = set()
        errors: dict[str, int] = {}
        devices = self._devices()
        try:
            program = compile_selector(expression, self._manager.features)
        except CompileError as error:
            return chosen, {f"CEL compile error: {error}": len(devices)}
        knows_shares = self._manager.features.knows_shares
        for number, (driver, device) in enumerate(devices):
            shared = device.allow_multiple_allocations if knows_shares else None
            try:
                if program.matches(CelDevice(driver, device.attributes, device.capacity, shared)):
                    chosen.add(number)
            except EvaluationError as error:
                text = f"CEL runtime error: {error}"
                errors[text] = errors.get(text, 0) + 1
        return chosen, errors

    def _devices(self) -> list[Entry]:
        if self._published is None:
            self._published = [
                (piece.spec.driver, device)
                for piece in self._manager.slices.list()
                for device in piece.spec.devices or ()
            ]
        return self._published

    def _of_class(self, class_name: str) -> list[Entry]:
        """Return the devices of the class."""
        if class_name not in self._members:
            devices = self._manager.allocator.devices_of(class_name)
            self._members[class_name] = [(device.id.driver, device.spec) for device in devices]
        return self._members[class_name]

    def _of(self, class_name: str, selectors: Iterable[str]) -> tuple[str, ...]:
        """Return the shortfalls of a request's selectors, or of a class's own if ``class_name`` is empty."""
        found: list[str] = []
        for text in selectors:
            key = class_name, text
            if key not in self._known:
                self._known[key] = tuple(self._work_out(class_name, text))
            found += self._known[key]
        return tuple(dict.fromkeys(found))

    def _work_out(self, class_name: str, expression: str) -> Sequence[str]:
        everywhere = shortfalls(expression, self._devices(), "device")
        members = self._of_class(class_name) if class_name else []
        if everywhere or not members:
            return everywhere
        return shortfalls(expression, members, f"device of class {class_name}")


def parts_of(request: DeviceRequest) -> Iterator[tuple[str, _Part]]:
    """Yield the request, or each of its alternatives, with its full name."""
    if request.exactly is not None:
        yield request.name, request.exactly
    for part in request.first_available:
        yield f"{request.name}/{part.name}", part
