"""An explanation as text: a summary of the nodes, then the details of one node of each group of similar nodes."""

import re
from collections.abc import Iterable, Iterator, Sequence

from dra_shared.plurals import count

from dra_scheduler.explain.report import (
    ClaimReport,
    ClassReport,
    DeviceReport,
    GroupReport,
    HeldReport,
    NodeReport,
    NodeSummary,
    PlaceReport,
    PodReport,
    ReasonReport,
    RequestReport,
)

_MOST_NAMES = 4
_NOT_SIMULATED = (
    "  not simulated: {}: it does nothing, and runs until it is asked to stop (docs/node-agent.md, Images)"
)
_MOST_PLACES = 8
_STOPPED = "  stopped for lack of time: {left} of {nodes} nodes were not examined, and a closer one may be among them"
_OTHERWISE = "; in another try: "
_MOST_VALUES = 3
_NUMBERED = re.compile(r"(.*?)(\d+)$")


def render(report: PodReport) -> str:
    """Render the whole report."""
    title = f"pod {report.pod}" if report.pod else "no pod"
    lines = [f"{title}: {report.state}" + (f" on {report.node}" if report.node else "")]
    lines += [f"  does not run yet: {reason}" for reason in report.waits_for]
    if report.not_simulated:
        lines.append(_NOT_SIMULATED.format(report.not_simulated))
    if report.message:
        lines.append(f"  last message: {report.message}")
    if report.group is not None:
        lines += _group(report.group)
    for claim in report.claims:
        lines += _claim(claim)
    if report.summary:
        lines.append("  nodes:")
        lines += [f"    {_summary(part)}" for part in report.summary]
    if report.closest and len(report.nodes) + report.nodes_left_out > 1:
        lines.append(f"  closest: node {report.closest}")
    if report.change is not None:
        at = f"node {report.change.node} would take it" if report.change.node else "it has to wait"
        lines.append(f"  {at} {report.change.text}")
    elif report.closest and not any(node.fits for node in report.nodes):
        lines.append("  no single change that was tried would make it fit")
    lines += [f"  {text}" for text in report.shortfalls]
    lines += [f"  {line}" for line in held_lines(report.unpublished)]
    lines += [f"  not asked: extender {name}, which might reject nodes" for name in report.not_asked]
    for group in _sorts(report.nodes):
        names = [node.node for node in group[1:]]
        lines += ["  " + line for line in _node(group[0], names, "has it" if report.node else "fits")]
    if report.nodes_left_out:
        lines.append(f"  and {report.nodes_left_out} more nodes")
    if report.not_examined:
        lines.append(
            _STOPPED.format(left=report.not_examined, nodes=len(report.nodes) + report.nodes_left_out)
        )
    return "\n".join(map(_indent_breaks, lines)) + "\n"


def _indent_breaks(line: str) -> str:
    """Indent the text after line breaks, such as a compiler's message, like the line itself."""
    indent = line[: len(line) - len(line.lstrip())]
    return line.replace("\n", f"\n{indent}  ")


def render_class(report: ClassReport) -> str:
    """Render the devices that a class selects."""
    lines = [f"class {report.device_class}: selects {report.selected} of {count(report.devices, 'device')}"]
    for index, selector in enumerate(report.selectors):
        expression = " ".join(selector.expression.split())
        lines.append(f"  selector #{index}, true for {count(selector.selected, 'device')}: {expression}")
        lines += [f"    {count(number, 'device')}: {error}" for error, number in selector.errors.items()]
        lines += [f"    {text}" for text in selector.shortfalls]
    return "\n".join(lines) + "\n"


def _group(group: GroupReport) -> Iterator[str]:
    wanted = f", at least {group.min_count} together or none" if group.min_count else ""
    yield f"  group {group.group}: {count(len(group.members) + 1, 'pod')}, {group.placed} with nodes{wanted}"
    waiting = [member for member in group.members if not member.node]
    for member in waiting[:_MOST_NAMES]:
        yield f"    {member.pod}: {member.state}" + (f", {member.message}" if member.message else "")
    if len(waiting) > _MOST_NAMES:
        yield f"    and {len(waiting) - _MOST_NAMES} more that wait"
    if group.together:
        placed = sum(bool(place.node) for place in group.together)
        yield f"    tried together now: {placed} of {count(len(group.together), 'pod')} that wait would get nodes"
        shown = sorted(group.together, key=lambda place: bool(place.node))[:_MOST_PLACES]
        yield from (f"      {_place(place)}" for place in group.together if place in shown)
        if len(group.together) > len(shown):
            yield f"      and {len(group.together) - len(shown)} more"


def _place(place: PlaceReport) -> str:
    if place.node:
        return f"{place.pod}: {place.node}" + (f" ({', '.join(place.devices)})" if place.devices else "")
    return f"{place.pod}: {place.message or 'not tried, for lack of time'}"


def held_lines(devices: Sequence[HeldReport]) -> Iterator[str]:
    """Yield a line for each of the devices, which claims hold but no ResourceSlice publishes."""
    for held in devices[:_MOST_PLACES]:
        pods = f" ({', '.join(held.pods)})" if held.pods else ""
        claims = f"claim{'s' if len(held.claims) > 1 else ''} {', '.join(held.claims)}"
        yield f"no ResourceSlice publishes device {held.device} any more, which {claims} holds{pods}"
    if len(devices) > _MOST_PLACES:
        yield f"and {len(devices) - _MOST_PLACES} more such devices"


def _claim(claim: ClaimReport) -> Iterator[str]:
    devices = ", ".join(claim.devices) or "not allocated"
    yield f"  claim {claim.claim}: {devices}" + (" (being stored)" if claim.in_flight else "")
    if claim.reserved_for:
        yield f"    reserved for {', '.join(claim.reserved_for)}"


def _summary(part: NodeSummary) -> str:
    text = "; ".join(part.objections) or "can take it"
    return f"{part.count} {'node' if part.count == 1 else 'nodes'} ({names_text(part.nodes)}): {text}"


def _sorts(nodes: Sequence[NodeReport]) -> list[list[NodeReport]]:
    """Group the nodes by their reports, ignoring the values of single devices."""
    found: dict[tuple[object, ...], list[NodeReport]] = {}
    for node in nodes:
        requests = tuple(
            (request.claim, request.request, request.suitable, tuple(gists(request.devices).items()))
            for request in _gist_only(node.requests)
        )
        pools = tuple((pool.driver, pool.devices, pool.problem, bool(pool.warning)) for pool in node.pools)
        key = (
            node.fits,
            str(node.objections),
            str(node.saw),
            pools,
            str(requests),
            len(node.allocated),
            node.silent_drivers,
        )
        found.setdefault(key, []).append(node)
    return list(found.values())


def _gist_only(requests: Iterable[RequestReport]) -> Iterator[RequestReport]:
    for request in requests:
        devices = tuple(
            DeviceReport(
                device=device.device.rpartition("/")[2],
                details=tuple(ReasonReport(kind=part.kind, gist=part.gist) for part in device.details),
            )
            for device in request.devices
        )
        yield RequestReport(
            claim=request.claim, request=request.request, suitable=request.suitable, devices=devices
        )


def _node(node: NodeReport, others: Sequence[str], fits: str) -> Iterable[str]:
    title = f"node {node.node}: " + (fits if node.fits else "does not fit")
    yield title + (f" (and {len(others)} more like it: {names_text(others)})" if others else "")
    for plugin, reasons in node.objections.items():
        yield f"  {plugin}: {', '.join(reasons)}"
        yield from (f"    {text}" for text in node.saw.get(plugin, ()))
    for pool in node.pools:
        suffix = f" ({pool.problem})" if pool.problem else ""
        yield f"  pool {pool.driver}/{pool.pool} generation {pool.generation}: {count(pool.devices, 'device')}{suffix}"
        if pool.warning:
            yield f"    {pool.warning}"
    yield from (f"  driver {driver} publishes no devices for this node" for driver in node.silent_drivers)
    usable = not node.pools or any(pool.devices and not pool.problem for pool in node.pools)
    for index, request in enumerate(node.requests):
        why = _not_searched(request, node.requests[:index], node.requests, usable)
        yield from ("  " + line for line in _request(request, why))
    if node.allocated:
        yield f"  {'devices' if node.fits else 'devices that it could have'}: {', '.join(node.allocated)}"


def _not_searched(
    request: RequestReport, before: Sequence[RequestReport], requests: Sequence[RequestReport], usable: bool
) -> str:
    """Return why the request got no device or was not tried. Empty if the reasons of its devices explain it."""
    parent, slash, _ = request.request.partition("/")
    for other in requests if slash and not request.taken else ():
        if other.taken and other.claim == request.claim and other.request.startswith(f"{parent}/"):
            return f"not taken: alternative {other.request} is"
    if not usable:
        return "no pool to take devices from"
    if not request.devices and not request.suitable:
        return "no device of the class on this node"
    if request.reached or request.taken:
        return ""
    return "not tried: what comes before it cannot be had" if before else "not tried"


def _request(request: RequestReport, why: str) -> Iterable[str]:
    wanted = f"{request.count} of" if request.count else "all of"
    suit = f", {request.suitable} would suit" if request.suitable else ""
    extended = is_for_extended_resources(request.claim)
    claim = "for extended resources" if extended else f"of claim {request.claim}"
    yield f"request {request.request} {claim} ({wanted} class {request.device_class}{suit})"
    if why:
        yield f"  {why}"
    for group, devices in gists(request.devices).items():
        parts = [gist + _values(_verb(devices[0], gist), values_of(devices, gist)) for gist in group]
        # A rejection by a selector is recorded only once for all attempts of the search.
        once = any(part.kind == "selectorRejected" for part in devices[0].details)
        yield f"  {count(len(devices), 'device')}: {('; ' if once else _OTHERWISE).join(parts)}"
        yield f"    {names_text(_short([device.device for device in devices]))}"


def is_for_extended_resources(claim: str) -> bool:
    """True for the key of a claim for extended resources, which gets a valid name only when it is created."""
    return claim.partition("/")[2].startswith("<")


def gists(devices: Iterable[DeviceReport]) -> dict[tuple[str, ...], list[DeviceReport]]:
    """Group devices by the reasons against them, those closest to success first.

    A device has several reasons if the search tried it with different devices picked before.
    """
    found: dict[tuple[str, ...], list[DeviceReport]] = {}
    for device in devices:
        parts = dict.fromkeys(part.gist for part in device.details if part.kind != "deadEnd")
        key = tuple(parts or dict.fromkeys(part.gist for part in device.details))
        found.setdefault(key, []).append(device)
    order = sorted(found.items(), key=lambda item: of_other_class(item[1][0]))
    return dict(order)


def values_of(devices: Iterable[DeviceReport], gist: str) -> list[str]:
    """Return the distinct values of the devices that were rejected for that reason."""
    parts = (part for device in devices for part in device.details if part.gist == gist)
    return list(dict.fromkeys(part.values for part in parts if part.values))


def _verb(device: DeviceReport, gist: str) -> str:
    return "saw " if any(part.saw for part in device.details if part.gist == gist) else ""


def of_other_class(device: DeviceReport) -> bool:
    """True if a selector of the class rejected the device."""
    return any(part.device_class for part in device.details)


def _values(saw: str, values: Sequence[str]) -> str:
    if not values:
        return ""
    shown = "; ".join(values[:_MOST_VALUES])
    more = f"; and {count(len(values) - _MOST_VALUES, 'other')}" if len(values) > _MOST_VALUES else ""
    return f" ({saw}{shown}{more})"


def _short(devices: Sequence[str]) -> list[str]:
    """Return device names, without driver and pool if all devices share them."""
    pools = {device.rpartition("/")[0] for device in devices}
    return [device.rpartition("/")[2] for device in devices] if len(pools) == 1 else list(devices)


def names_text(names: Sequence[str]) -> str:
    """Format names with consecutive numbers as ranges, up to a maximum number of parts."""
    parts: list[str] = []
    covered = 0
    runs = _runs(names)
    for run in runs[:_MOST_NAMES]:
        parts.append(run[0] if len(run) == 1 else f"{run[0]}..{_number(run[-1])}")
        covered += len(run)
    left = len(names) - covered
    return ", ".join(parts) + (f" and {left} more" if left else "")


def _runs(names: Sequence[str]) -> list[list[str]]:
    found: list[list[str]] = []
    before: tuple[str, int] | None = None
    for name in sorted(names, key=_natural):
        match = _NUMBERED.match(name)
        here = (match[1], int(match[2])) if match else None
        if found and before and here and here == (before[0], before[1] + 1):
            found[-1].append(name)
        else:
            found.append([name])
        before = here
    return found


def _number(name: str) -> str:
    match = _NUMBERED.match(name)
    return match[2] if match else name


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
