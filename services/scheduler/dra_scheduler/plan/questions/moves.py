"""``plan drain``, ``remove`` and ``upgrade``: the new nodes of the pods that have to leave their nodes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dra_shared.api.meta import Struct
from dra_shared.errors import UserError
from dra_shared.plurals import count
from dra_shared.selectors import SelectorError, parse_label_selector

from dra_scheduler.plan.questions.question import Door, Holders, Question
from dra_scheduler.plan.questions.texts import INTERRUPTED, list_names, uncertainty_lines
from dra_scheduler.plan.tables import Table

if TYPE_CHECKING:
    from dra_scheduler.plan.moves import Move, Moves
    from dra_scheduler.plan.objects import Objects


class NodesRequest(Struct):
    """Nodes to drain, remove or upgrade. No node means all nodes when upgrading."""

    nodes: tuple[str, ...] = ()


def show_moves(answer: Moves) -> str:
    """Return an answer about moves as text."""
    lines = [f"{count(answer.moved, 'pod')} {'moves' if answer.moved == 1 else 'move'}, {answer.stuck} stuck"]
    if not answer.complete:
        lines.append(INTERRUPTED)
    if answer.order:
        lines.append(f"in this order: {', '.join(answer.order)}")
    for move in answer.moves:
        if move.stuck:
            lines.append(f"  {move.pod} on {move.before} is stuck: {move.stuck}")
        else:
            devices = f": {', '.join(move.devices_after)}" if move.devices_after else ""
            lines.append(f"  {move.pod} from {move.before} to {move.after}{devices}")
    lines += [f"preempted: {pod}: {text}" for pod, text in answer.preempted.items()]
    return "\n".join([*lines, *uncertainty_lines(answer.uncertain)])


def draw_moves(answer: Moves, holders: Holders) -> None:
    """Show the moves of an answer in the report's picture, by changing ``holders``."""
    holders.move(answer.moves)


def state_moves(answer: Moves) -> str:
    """Summarize an answer about moves in a sentence."""
    if not answer.moves:
        return "No pod has to move."
    moved = f"{count(answer.moved, 'pod')} {'moves' if answer.moved == 1 else 'move'}"
    if not answer.stuck:
        return f"{moved}, and none is stuck."
    reason = next(move.stuck for move in answer.moves if move.stuck)
    return f"{moved}, {answer.stuck} {'is' if answer.stuck == 1 else 'are'} stuck: {reason}"


def tabulate_moves(caption: str, moves: Sequence[Move]) -> Table:
    """Return a table of pods that move or are stuck."""
    head = ("pod", "from", "devices before", "to", "devices after", "stuck")
    rows = [
        (
            move.pod,
            move.before,
            move.devices_before,
            "" if move.stuck else move.after,
            move.devices_after,
            move.stuck,
        )
        for move in moves
    ]
    return Table(caption, head, rows)


def list_move_tables(answer: Moves) -> Sequence[Table]:
    """Return the tables of an answer about moves."""
    found = [tabulate_moves("What moves", answer.moves)]
    if answer.order:
        found.append(Table("Order of the nodes", ("place", "node"), list(enumerate(answer.order, 1))))
    if answer.preempted:
        found.append(Table("Preempted pods", ("pod", "by"), list(answer.preempted.items())))
    return found


def _phrase_drain(asked: NodesRequest) -> str:
    drained = "it is" if len(asked.nodes) == 1 else "they are"
    return f"Where do the pods of {list_names(asked.nodes)} go if {drained} drained?"


def _phrase_remove(asked: NodesRequest) -> str:
    gone = "it is" if len(asked.nodes) == 1 else "they are"
    return f"Where do the pods of {list_names(asked.nodes)} go if {gone} gone at once?"


def _phrase_upgrade(asked: NodesRequest) -> str:
    nodes = list_names(asked.nodes) if asked.nodes else "all nodes"
    return f"In which order can {nodes} be upgraded, and which pods are stuck?"


def _drain(door: Door, asked: NodesRequest) -> Moves:
    return door.planner.drain(asked.nodes)


def _remove(door: Door, asked: NodesRequest) -> Moves:
    return door.planner.remove(asked.nodes)


def _upgrade(door: Door, asked: NodesRequest) -> Moves:
    return door.planner.upgrade(asked.nodes)


def _add_words(words: argparse.ArgumentParser, about_nodes: str | None = None) -> None:
    words.add_argument("nodes_named", nargs="*", metavar="NODE", help=about_nodes)
    words.add_argument("--selector", "-l", default="", help="nodes with these labels, in place of names")


def _add_upgrade_words(words: argparse.ArgumentParser) -> None:
    _add_words(words, "all nodes unless some are named")


def _read_words(name: str) -> Callable[[argparse.Namespace, Objects], NodesRequest]:
    """Return a function that reads node names or a selector from the command line. As with kubectl drain, not both."""

    def read(chosen: argparse.Namespace, objects: Objects) -> NodesRequest:
        named: list[str] = chosen.nodes_named
        if not chosen.selector:
            if not named and name != "upgrade":
                raise UserError(f"name the nodes to {name}, or select them with --selector", 2)
            return NodesRequest(nodes=tuple(named))
        if named:
            raise UserError("cannot specify both a node name and a --selector option", 2)
        return NodesRequest(nodes=_select(chosen.selector, objects))

    return read


def _select(text: str, objects: Objects) -> tuple[str, ...]:
    from dra_shared.api.resources import NODES

    try:
        selector = parse_label_selector(text)
    except SelectorError as error:
        raise UserError(f"--selector: {error}", 2) from error
    nodes = objects.of(NODES).values()
    found = tuple(node.metadata.name for node in nodes if selector.matches(node.metadata.labels))
    if not found:
        raise UserError(f"no node has the labels {text}")
    return found


DRAIN = Question(
    "drain",
    "where the pods of nodes go when they are drained, and who is stuck",
    NodesRequest,
    _drain,
    show_moves,
    _add_words,
    _read_words("drain"),
    draw_moves,
    phrase=_phrase_drain,
    headline=state_moves,
    tables=list_move_tables,
)
REMOVE = Question(
    "remove",
    "where the pods of nodes go when the nodes are gone at once",
    NodesRequest,
    _remove,
    show_moves,
    _add_words,
    _read_words("remove"),
    draw_moves,
    phrase=_phrase_remove,
    headline=state_moves,
    tables=list_move_tables,
)
UPGRADE = Question(
    "upgrade",
    "nodes are drained one by one and come back: in which order",
    NodesRequest,
    _upgrade,
    show_moves,
    _add_upgrade_words,
    _read_words("upgrade"),
    draw_moves,
    phrase=_phrase_upgrade,
    headline=state_moves,
    tables=list_move_tables,
)
