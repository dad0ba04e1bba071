"""What selectors ask for and no device has: an attribute, or its value; and what comes nearest to it.

Upstream has no counterpart. A class that was written for ``NVIDIA A100`` selects no ``NVIDIA A100-SXM4-40GB``.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dra_shared.api.pod import Pod
from dra_shared.api.resource import Device, DeviceAttribute, DeviceClass, ResourceClaim
from dra_shared.cel import CelDevice, CompileError, EvaluationError, compile_expression
from dra_shared.cel.parser import ParseFailed, parse
from dra_shared.cel.reads import comparisons, reads
from dra_shared.quoting import go_quote

from dra_scheduler.allocator.programs import cel_features
from dra_scheduler.allocator.selectors import attribute_text
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.report import ClassReport, SelectorReport
from dra_scheduler.framework.resources import extended_requests

# How similar a name has to be to be called near.
_SIMILAR = 0.5
_MOST_NAMES = 5

# A device with its driver.
_Entry = tuple[str, Device]


class Shortfalls:
    """Looks for them among all devices that are published; what it found holds until those change."""

    def __init__(self, manager: DRAManager) -> None:
        self._manager = manager
        self._known: dict[str, tuple[str, ...]] = {}
        manager.slices.add_listener(lambda old, new: self._known.clear())

    def of_pod(self, pod: Pod, claims: Iterable[ResourceClaim]) -> tuple[str, ...]:
        """Those of the claims' classes and requests, and of the classes of extended resources."""
        found: dict[str, None] = {}
        for resource in extended_requests(pod):
            device_class = self._manager.classes.for_resource(resource)
            for text in self._of(_expressions(device_class)):
                found[f"class {device_class.metadata.name if device_class is not None else ''}: {text}"] = (
                    None
                )
        for claim in claims:
            for request in claim.spec.devices.requests:
                # Of alternatives another one may do.
                if request.exactly is None:
                    continue
                device_class = self._manager.classes.get(request.exactly.device_class_name)
                where = f"class {request.exactly.device_class_name}"
                for text in self._of(_expressions(device_class)):
                    found[f"{where}: {text}"] = None
                own = [each.cel.expression for each in request.exactly.selectors if each.cel is not None]
                for text in self._of(own):
                    found[f"request {request.name}: {text}"] = None
        return tuple(found)

    def device_class(self, name: str) -> ClassReport | None:
        """What the class selects, and what keeps it from selecting anything; None if there is no such class."""
        device_class = self._manager.classes.get(name)
        if device_class is None:
            return None
        selectors = tuple(self._selector(text) for text in _expressions(device_class))
        chosen = set(range(len(self._devices())))
        for selector in selectors:
            chosen &= self._chosen(selector.expression)[0]
        return ClassReport(
            device_class=name, devices=len(self._devices()), selected=len(chosen), selectors=selectors
        )

    def _selector(self, expression: str) -> SelectorReport:
        chosen, errors = self._chosen(expression)
        return SelectorReport(
            expression=expression, selected=len(chosen), errors=errors, shortfalls=self._of([expression])
        )

    def _chosen(self, expression: str) -> tuple[set[int], dict[str, int]]:
        """The devices that the selector is true for, by number, and how many it fails for with which error."""
        chosen: set[int] = set()
        errors: dict[str, int] = {}
        devices = self._devices()
        try:
            program = compile_expression(expression, features=cel_features(self._manager.features))
        except CompileError as error:
            return chosen, {f"CEL compile error: {error}": len(devices)}
        for number, (driver, device) in enumerate(devices):
            shared = device.allow_multiple_allocations
            try:
                if program.matches(CelDevice(driver, device.attributes, device.capacity, shared)):
                    chosen.add(number)
            except EvaluationError as error:
                text = f"CEL runtime error: {error}"
                errors[text] = errors.get(text, 0) + 1
        return chosen, errors

    def _devices(self) -> list[_Entry]:
        return [
            (piece.spec.driver, device)
            for piece in self._manager.slices.list()
            for device in piece.spec.devices or ()
        ]

    def _of(self, expressions: Iterable[str]) -> tuple[str, ...]:
        found: list[str] = []
        for expression in expressions:
            if expression not in self._known:
                self._known[expression] = tuple(_shortfalls(expression, self._devices()))
            found += self._known[expression]
        return tuple(dict.fromkeys(found))


def _expressions(device_class: DeviceClass | None) -> list[str]:
    selectors = device_class.spec.selectors if device_class is not None else ()
    return [each.cel.expression for each in selectors if each.cel is not None]


def _shortfalls(expression: str, devices: Sequence[_Entry]) -> Iterator[str]:
    try:
        tree = parse(expression)
    except ParseFailed:
        return
    wanted = comparisons(tree)
    drivers = {str(value) for path, values in wanted if path == ("driver",) for value in values}
    entries = [entry for entry in devices if not drivers or entry[0] in drivers]
    if not entries:
        return
    missing = set()
    read = reads(tree)
    for domain, name in sorted(read["attributes"] if read is not None else ()):
        if not any(_attribute(entry, domain, name) is not None for entry in entries):
            missing.add((domain, name))
            yield _no_attribute(domain, name, entries)
    for path, values in wanted:
        if len(path) == 3 and path[0] == "attributes" and path[1:] not in missing:
            yield from _no_value(path[1], path[2], values, entries)


def _attribute(entry: _Entry, domain: str, name: str) -> DeviceAttribute | None:
    driver, device = entry
    attributes: Mapping[str, DeviceAttribute] = device.attributes
    found = attributes.get(f"{domain}/{name}")
    return attributes.get(name) if found is None and domain == driver else found


def _no_attribute(domain: str, name: str, entries: Iterable[_Entry]) -> str:
    seen = {
        attribute.rpartition("/")[2]
        for driver, device in entries
        for attribute in device.attributes
        if (attribute.rpartition("/")[0] or driver) == domain
    }
    text = f"no device has attribute {go_quote(name)} of {domain}"
    if not seen:
        return text
    near = _nearest(name, seen)
    if near:
        return f"{text}, nearest seen {go_quote(near)}"
    names = sorted(seen)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{text}, seen {', '.join(names[:_MOST_NAMES])}{more}"


def _no_value(domain: str, name: str, values: Sequence[object], entries: Iterable[_Entry]) -> Iterator[str]:
    texts = {_text(value) for value in values}
    found = (_attribute(entry, domain, name) for entry in entries)
    seen = {attribute_text(attribute) for attribute in found if attribute is not None}
    if not texts or texts & seen:
        return
    wanted = " or ".join(go_quote(text) for text in sorted(texts))
    nearest = _nearest(min(texts), seen, least=0.0)
    yield f"no device has {name} {wanted}, nearest seen {go_quote(nearest)}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _nearest(wanted: str, seen: Iterable[str], least: float = _SIMILAR) -> str:
    """The most similar of them, those that contain it or are a part of it first; empty: none is similar enough."""

    def likeness(text: str) -> tuple[bool, float, str]:
        low, other = wanted.lower(), text.lower()
        ratio = difflib.SequenceMatcher(None, low, other).ratio()
        return bool(low) and (low in other or other in low), ratio, text

    contained, ratio, best = max(map(likeness, sorted(seen)))
    return best if contained or ratio >= least else ""
