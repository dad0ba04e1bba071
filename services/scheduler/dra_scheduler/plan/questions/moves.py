"""``plan drain``, ``remove`` and ``upgrade``: where the pods of nodes go."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from dra_shared.api.meta import Struct
from dra_shared.errors import UserError
from dra_shared.plurals import count
from dra_shared.selectors import SelectorError, parse_label_selector

from dra_scheduler.plan.questions.question import Door, Holders, Question
from dra_scheduler.plan.questions.texts import INTERRUPTED, uncertainty_lines

if TYPE_CHECKING:
    from dra_scheduler.plan.moves import Moves
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
    """Draw an answer about moves."""
    holders.move(answer.moves)


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
    """Return a function that reads the nodes that are named or selected. As with kubectl drain, not both."""

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
)
