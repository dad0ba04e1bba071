"""Answers for people: text, and JSON or YAML of the same fields."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import orjson
from dra_scheduler.explain.text import render
from dra_scheduler.plan.answers import complete
from dra_scheduler.plan.change import Comparison
from dra_scheduler.plan.fit import Fit, PodPlace
from dra_scheduler.plan.moves import Moves
from dra_scheduler.plan.packing.answer import NodeRoom, Packing, Room
from dra_scheduler.plan.purchase.answer import Purchase
from dra_scheduler.plan.replaying.answer import Replay
from dra_shared.errors import UserError
from dra_shared.plurals import count as _count

_MOST_PODS = 20


def structured(answer: msgspec.Struct | Any, output: str) -> str:
    """The answer as JSON or YAML.

    Raises:
        UserError: there is no such output.
    """
    value = complete(answer)
    if output == "json":
        return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    if output == "yaml":
        import yaml

        return str(yaml.safe_dump(value, sort_keys=False)).rstrip()
    raise UserError(f"unknown output {output!r}: choose json, yaml or html, or leave it out", 2)


def fit_text(fit: Fit) -> str:
    """The answer of ``plan fit``."""
    lines = [_headline(fit)]
    if not fit.complete:
        lines.append("interrupted: this is as far as it came")
    if fit.more:
        lines.append(f"{'at least ' if fit.more_at_least else ''}{fit.more} more like it would fit")
    lines += [f"  {place}" for place in _places(fit.pods)]
    for pod, text in fit.preempted.items():
        lines.append(f"preempted: {pod}: {text}")
    if fit.waiting:
        lines.append(f"tried first: {_count(fit.waiting, 'pod')} of the cluster, waiting for a node")
    if fit.unplaced is not None:
        lines += ["", "the first that does not fit:", render(fit.unplaced).rstrip()]
    lines += [f"uncertain: {problem}" for problem in fit.uncertain]
    return "\n".join(lines)


def _headline(fit: Fit) -> str:
    if not fit.wanted:
        return f"{fit.copies} fit, {_count(fit.fits, 'pod')}"
    if fit.fits == fit.wanted:
        known = ", as far as kinds are known" if fit.left_out else ""
        return f"fits{known}: {_count(fit.fits, 'pod')}"
    return f"does not fit: {fit.fits} of {_count(fit.wanted, 'pod')} fit"


def _places(pods: Iterable[PodPlace]) -> Iterable[str]:
    placed = [pod for pod in pods if pod.node]
    for pod in placed[:_MOST_PODS]:
        yield f"{pod.pod} on {pod.node}" + (f": {', '.join(pod.devices)}" if pod.devices else "")
    if len(placed) > _MOST_PODS:
        yield f"and {len(placed) - _MOST_PODS} more; -o json has all"


def moves_text(answer: Moves) -> str:
    """The answer of ``plan drain`` and its kin."""
    lines = [
        f"{_count(answer.moved, 'pod')} {'moves' if answer.moved == 1 else 'move'}, {answer.stuck} stuck"
    ]
    if not answer.complete:
        lines.append("interrupted: this is as far as it came")
    if answer.order:
        lines.append(f"in this order: {', '.join(answer.order)}")
    for move in answer.moves:
        if move.stuck:
            lines.append(f"  {move.pod} on {move.before} is stuck: {move.stuck}")
        else:
            devices = f": {', '.join(move.devices_after)}" if move.devices_after else ""
            lines.append(f"  {move.pod} from {move.before} to {move.after}{devices}")
    lines += [f"preempted: {pod}: {text}" for pod, text in answer.preempted.items()]
    lines += [f"uncertain: {problem}" for problem in answer.uncertain]
    return "\n".join(lines)


def change_text(answer: Comparison) -> str:
    """The answer of ``plan change``."""
    lines = [f"of {_count(answer.pods, 'pod')}, {answer.before} are placed before and {answer.after} after"]
    shown = answer.changed[:_MOST_PODS]
    lines += [f"  {each.pod}: {_where(each.before)} -> {_where(each.after)}" for each in shown]
    if len(answer.changed) > _MOST_PODS:
        lines.append(f"  and {len(answer.changed) - _MOST_PODS} more; -o json has all")
    lines += [f"uncertain: {problem}" for problem in answer.uncertain]
    return "\n".join(lines)


def purchase_text(answer: Purchase) -> str:
    """The answer of ``plan nodes``."""
    lines = []
    count = sum(each.count for each in answer.nodes)
    lines.append(f"{_count(count, 'node')} for {answer.cost:g}, for {_count(answer.wanted, 'pod')} that wait")
    lines += [f"  {each.count} x {each.type} at {each.price:g}" for each in answer.nodes]
    if not answer.complete:
        lines.append("interrupted: this is the best so far")
    if answer.optimal:
        lines.append("no other nodes of the catalog cost less")
    else:
        lines.append(f"none cost less than {answer.bound:g}: at most {answer.gap:.1%} could be saved")
    if answer.nominated:
        lines.append(
            "if status.nominatedNodeName of the pods is as below; else the scheduler spreads them otherwise"
        )
    lines += [f"  {place}" for place in _places(answer.pods)]
    lines += [f"no place: {each.pod}: {each.message}" for each in answer.unplaced[:_MOST_PODS]]
    lines += [f"uncertain: {problem}" for problem in answer.uncertain]
    return "\n".join(lines)


def packing_text(answer: Packing) -> str:
    """The answer of ``plan pack``."""
    lines = []
    if not answer.complete:
        lines.append("interrupted: this is as far as it came")
    whose = "of pods that wait" if answer.waiting else "of the pods that have claims, as none waits"
    shapes = (f"{name} ({_count(count, 'pod')})" for name, count in answer.shapes.items())
    lines.append(f"shapes {whose}: {', '.join(shapes) or 'none'}")
    lines.append(f"free devices: {_amounts(answer.free)}")
    lines.append(f"stranded, as none of the shapes can use them: {_amounts(answer.stranded)}")
    for node in answer.nodes[:_MOST_PODS]:
        lines += _room_of(node)
    if len(answer.nodes) > _MOST_PODS:
        lines.append(f"  and {len(answer.nodes) - _MOST_PODS} more; -o json has all")
    if answer.room is not None:
        lines += _room(answer.room)
    lines += [f"uncertain: {problem}" for problem in answer.uncertain]
    return "\n".join(lines)


def _room_of(node: NodeRoom) -> Iterable[str]:
    most = (f"{each.count} x {each.shape} of class {each.device_class}" for each in node.largest)
    yield f"  {node.node}: could still give {'; '.join(most) or 'no device'}"
    left = {**{name: str(count) for name, count in node.stranded.items()}, **node.counters, **node.shares}
    if left:
        yield f"    stranded: {', '.join(f'{amount} x {name}' for name, amount in left.items())}"


def _room(room: Room) -> Iterable[str]:
    if not room.found:
        yield f"no moves were found that make room; fewer than {room.at_least} are not enough: {room.message}"
        return
    yield f"{_count(len(room.moves), 'move')} {'makes' if len(room.moves) == 1 else 'make'} room, and fewer do not:"
    for move in room.moves:
        yield f"  {move.pod} from {move.before} to {move.after}"
    yield from (f"  then {place}" for place in _places(room.placed))


def replay_text(answer: Replay) -> str:
    """The answer of ``plan replay``."""
    lines = []
    for course in answer.courses:
        waits = course.waits
        lines += [
            f"{course.name}: {course.placed} of {_count(course.pods, 'pod')} placed, utilisation "
            f"{course.utilisation:.1%} in {course.span:g} s",
            f"  waits: mean {waits.mean:g} s, median {waits.median:g} s, 95th percentile {waits.p95:g} s, "
            f"longest {waits.longest:g} s",
        ]
        if course.preempted:
            lines.append(f"  {_count(course.preempted, 'pod')} preempted, which started again")
        for pod in course.starved[:_MOST_PODS]:
            why = f": {pod.message}" if pod.message else ""
            lines.append(f"  starved: {pod.pod}, which came at {pod.at:g} s, waited {pod.waited:g} s{why}")
        if len(course.starved) > _MOST_PODS:
            lines.append(f"  and {len(course.starved) - _MOST_PODS} more; -o json has all")
    if not answer.complete:
        lines.append("interrupted: this is as far as it came")
    lines += [f"uncertain: {problem}" for problem in answer.uncertain]
    return "\n".join(lines)


def _amounts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in counts.items()) or "none"


def _where(place: PodPlace) -> str:
    if not place.node:
        return f"nowhere ({place.message})"
    return f"{place.node} ({', '.join(place.devices)})" if place.devices else place.node
