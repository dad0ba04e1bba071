"""``plan pack``: stranded devices, the pods that nodes could still take, and moves that make room."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dra_shared.api.meta import Struct
from dra_shared.jsontypes import JsonObject
from dra_shared.optiontypes import number
from dra_shared.plurals import count

from dra_scheduler.plan.questions.moves import tabulate_moves
from dra_scheduler.plan.questions.question import Door, Holders, Question
from dra_scheduler.plan.questions.texts import (
    INTERRUPTED,
    MOST_PODS,
    add_namespace,
    add_seconds,
    name_objects,
    place_lines,
    tabulate_places,
    uncertainty_lines,
)
from dra_scheduler.plan.tables import Table

if TYPE_CHECKING:
    from dra_scheduler.plan.objects import Objects
    from dra_scheduler.plan.packing.answer import NodeRoom, Packing, Room


class PackRequest(Struct):
    """Pods to make room for, if any. ``seconds`` limits the search for moves."""

    objects: tuple[JsonObject, ...] = ()
    count: int | None = None
    seconds: float = 20.0


def _ask(door: Door, asked: PackRequest) -> Packing:
    pods = door.pods(asked.objects, asked.count) if asked.objects else None
    return door.planner.pack(pods, asked.count, seconds=door.seconds(asked.seconds))


def _add_words(words: argparse.ArgumentParser) -> None:
    words.add_argument("--for", dest="file", metavar="FILE", help="make room for the pods of these manifests")
    words.add_argument("--count", type=number(1), help="the number of copies of the pods in FILE")
    add_seconds(words)
    add_namespace(words)


def _read_words(chosen: argparse.Namespace, objects: Objects) -> PackRequest:
    return PackRequest(objects=chosen.file or (), count=chosen.count, seconds=chosen.time)


def _text(answer: Packing) -> str:
    lines = []
    if not answer.complete:
        lines.append(INTERRUPTED)
    whose = "of pods that wait" if answer.waiting else "of the pods that have claims, as none waits"
    shapes = (f"{name} ({count(pods, 'pod')})" for name, pods in answer.shapes.items())
    lines.append(f"shapes {whose}: {', '.join(shapes) or 'none'}")
    lines.append(f"free devices: {_amounts(answer.free)}")
    lines.append(f"stranded, as none of the shapes can use them: {_amounts(answer.stranded)}")
    for node in answer.nodes[:MOST_PODS]:
        lines += _node_lines(node)
    if len(answer.nodes) > MOST_PODS:
        lines.append(f"  and {len(answer.nodes) - MOST_PODS} more; -o json has all")
    if answer.room is not None:
        lines += _room_lines(answer.room)
    return "\n".join([*lines, *uncertainty_lines(answer.uncertain)])


def _node_lines(node: NodeRoom) -> Iterator[str]:
    most = (f"{each.count} x {each.shape} of class {each.device_class}" for each in node.largest)
    yield f"  {node.node}: could still give {'; '.join(most) or 'no device'}"
    left = {**{name: str(amount) for name, amount in node.stranded.items()}, **node.counters, **node.shares}
    if left:
        yield f"    stranded: {', '.join(f'{amount} x {name}' for name, amount in left.items())}"


def _room_lines(room: Room) -> Iterator[str]:
    if not room.found:
        yield f"no moves were found that make room; fewer than {room.at_least} are not enough: {room.message}"
        return
    yield f"{count(len(room.moves), 'move')} {'makes' if len(room.moves) == 1 else 'make'} room, and fewer do not:"
    for move in room.moves:
        yield f"  {move.pod} from {move.before} to {move.after}"
    yield from (f"  then {place}" for place in place_lines(room.placed))


def _amounts(counts: Mapping[str, int | str]) -> str:
    return ", ".join(f"{amount} x {name}" for name, amount in counts.items()) or "none"


def _draw(answer: Packing, holders: Holders) -> None:
    if answer.room is not None:
        holders.move(answer.room.moves)
        holders.place(answer.room.placed)


def _phrase(asked: PackRequest) -> str:
    if not asked.objects:
        return "Which free devices can no pod use?"
    copies = f"{asked.count} x " if asked.count is not None else ""
    return f"Which moves make room for {copies}{name_objects(asked.objects)}?"


def _state_result(answer: Packing) -> str:
    free = sum(answer.free.values())
    stranded = f"{sum(answer.stranded.values())} of {count(free, 'free device')} are stranded"
    if answer.room is None:
        return f"{stranded}: none of the {count(len(answer.shapes), 'shape')} of pods can use them."
    if not answer.room.found:
        return f"No moves were found that make room. {stranded}."
    moves = count(len(answer.room.moves), "move")
    return f"{moves} {'makes' if len(answer.room.moves) == 1 else 'make'} room. {stranded}."


def _tables(answer: Packing) -> Sequence[Table]:
    head = ("node", "stranded", "takes", "largest")
    rows = [
        (
            node.node,
            _amounts({**node.stranded, **node.counters, **node.shares}),
            _amounts(node.takes),
            "; ".join(f"{each.count} x {each.shape} of class {each.device_class}" for each in node.largest),
        )
        for node in answer.nodes
    ]
    found = [Table("What each node could still take", head, rows)]
    if answer.room is not None:
        moves = tabulate_moves("What moves", answer.room.moves)
        found = [moves, tabulate_places("Where the pods go", answer.room.placed), *found]
    return found


QUESTION = Question(
    "pack",
    "what is stranded, what nodes could still take, and moves that make room",
    PackRequest,
    _ask,
    _text,
    _add_words,
    _read_words,
    _draw,
    counted="placed",
    phrase=_phrase,
    headline=_state_result,
    tables=_tables,
)
