"""Compares the values that a selector or constraint reads with those of a set of devices."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dra_shared.api.resource import Device, DeviceAttribute
from dra_shared.cel.parser import ParseFailed, parse
from dra_shared.cel.reads import comparisons, reads
from dra_shared.quoting import go_quote

from dra_scheduler.allocator.selectors import attribute_text
from dra_scheduler.explain.near import names_hint, nearest, plain

# The driver's name and the device.
Entry = tuple[str, Device]
_Values = Mapping[str, Any]

_MOST_NAMES = 5


def shortfalls(expression: str, devices: Sequence[Entry], what: str) -> list[str]:
    """Return the requirements of the expression that none of the devices meets.

    ``what`` describes the devices in messages.
    """
    return list(_shortfalls(expression, devices, what))


def _shortfalls(expression: str, devices: Sequence[Entry], what: str) -> Iterator[str]:
    try:
        tree = parse(expression)
    except ParseFailed:
        return
    wanted = comparisons(tree)
    drivers = {str(value) for path, values in wanted if path == ("driver",) for value in values}
    entries = [entry for entry in devices if not drivers or entry[0] in drivers]
    if not entries:
        if drivers and devices:
            near = names_hint(min(drivers), {driver for driver, _ in devices})
            yield f"no {what} is of driver {' or '.join(map(go_quote, sorted(drivers)))}{near}"
        return
    missing = set()
    read = reads(tree)
    if read is not None:
        for domain, name in sorted(read["attributes"]):
            text = _lacks("attribute", domain, name, entries, what)
            if text:
                missing.add((domain, name))
                yield text
        for domain, name in sorted(read["capacity"]):
            text = _lacks("capacity", domain, name, entries, what)
            if text:
                yield text
    for path, values in wanted:
        if len(path) == 3 and path[0] == "attributes" and path[1:] not in missing:
            yield from _no_value(path[1], path[2], values, entries, what)


def lacks_attribute(qualified: str, devices: Sequence[Entry], what: str) -> str:
    """Return a message if no device has the fully qualified attribute. Empty if there are no devices."""
    domain, _, name = qualified.partition("/")
    return _lacks("attribute", domain, name, devices, what)


def lacks_capacity(name: str, devices: Sequence[Entry], what: str) -> str:
    """Return a message if no device has the capacity that a request names. Empty if there are no devices.

    The request has to spell the name as the device does, with or without the driver's domain.
    """
    if not devices or any(name in device.capacity for _, device in devices):
        return ""
    near = names_hint(name, {each for _, device in devices for each in device.capacity})
    return f"no {what} has capacity {go_quote(name)}{near}"


def _of_kind(kind: str, device: Device) -> _Values:
    return device.attributes if kind == "attribute" else device.capacity


def _lacks(kind: str, domain: str, name: str, entries: Sequence[Entry], what: str) -> str:
    if not entries or any(_value(kind, entry, domain, name) is not None for entry in entries):
        return ""
    text = f"no {what} has {kind} {go_quote(name)} of {domain}"
    by_domain: dict[str, set[str]] = {}
    for driver, device in entries:
        for qualified in _of_kind(kind, device):
            own, _, identifier = qualified.rpartition("/")
            by_domain.setdefault(own or driver, set()).add(identifier)
    known = by_domain.get(domain, set())
    if not known:
        near = nearest(plain(domain), map(plain, by_domain), least=0.75)
        spelled = next((each for each in sorted(by_domain) if plain(each) == near), "")
        return f"{text}, nearest domain seen {go_quote(spelled)}" if spelled else text
    other = "capacity" if kind == "attribute" else "attribute"
    if any(_value(other, entry, domain, name) is not None for entry in entries):
        return f"{text}, but there is {'a capacity' if other == 'capacity' else 'an attribute'} of that name"
    near = nearest(name, known)
    if near:
        return f"{text}, nearest seen {go_quote(near)}"
    names = sorted(known)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{text}, seen {', '.join(names[:_MOST_NAMES])}{more}"


def _value(kind: str, entry: Entry, domain: str, name: str) -> Any:
    driver, device = entry
    values = _of_kind(kind, device)
    found = values.get(f"{domain}/{name}")
    return values.get(name) if found is None and domain == driver else found


def _no_value(
    domain: str, name: str, values: Sequence[object], entries: Sequence[Entry], what: str
) -> Iterator[str]:
    texts = {_text(value) for value in values}
    if not texts:
        return
    known = set()
    for entry in entries:
        attribute: DeviceAttribute | None = _value("attribute", entry, domain, name)
        if attribute is not None:
            known.add(attribute_text(attribute))
            if not texts.isdisjoint(known):
                return
    if not known:
        return
    wanted = " or ".join(go_quote(text) for text in sorted(texts))
    yield f"no {what} has {name} {wanted}, nearest seen {go_quote(nearest(min(texts), known, least=0.0))}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
