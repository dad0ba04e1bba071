"""``plan nodes``: the cheapest nodes on which all waiting pods fit."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dra_shared.api.meta import Struct
from dra_shared.api.resources import NODES
from dra_shared.jsontypes import JsonObject
from dra_shared.optiontypes import number
from dra_shared.plurals import count

from dra_scheduler.plan.questions.question import Door, Holders, Question
from dra_scheduler.plan.questions.texts import (
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
    from dra_scheduler.plan.purchase.answer import Purchase


class NodeTypeRequest(Struct):
    """Nodes that can be bought. ``objects`` are a Node and its ResourceSlices, which are copied for each new node.

    DeviceClasses among them are added if the cluster lacks them.
    """

    name: str
    price: float
    objects: tuple[JsonObject, ...]
    limit: int | None = None


class PurchaseRequest(Struct):
    """The node types, and pods in addition to the waiting ones. ``seconds`` limits the search."""

    types: tuple[NodeTypeRequest, ...]
    objects: tuple[JsonObject, ...] = ()
    count: int | None = None
    seconds: float = 20.0


def _ask(door: Door, asked: PurchaseRequest) -> Purchase:
    from dra_scheduler.plan.fit import Wanted

    pods = door.pods(asked.objects, asked.count) if asked.objects else Wanted(())
    types = door.types(asked.types)
    return door.planner.nodes(types, pods, asked.count, seconds=door.seconds(asked.seconds))


def _add_words(words: argparse.ArgumentParser) -> None:
    words.add_argument(
        "file", nargs="?", help="manifests with pods, in addition to the pending pods of the world"
    )
    words.add_argument(
        "--catalog", type=Path, required=True, metavar="TYPES", help="types of nodes and prices"
    )
    words.add_argument("--count", type=number(1), help="the number of copies of the pods in FILE")
    add_seconds(words)
    add_namespace(words)


def _read_words(chosen: argparse.Namespace, objects: Objects) -> PurchaseRequest:
    return PurchaseRequest(
        types=chosen.catalog, objects=chosen.file or (), count=chosen.count, seconds=chosen.time
    )


def _text(answer: Purchase) -> str:
    nodes = sum(each.count for each in answer.nodes)
    lines = [f"{count(nodes, 'node')} for {answer.cost:g}, for {count(answer.wanted, 'pod')} that wait"]
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
    lines += [f"  {place}" for place in place_lines(answer.pods)]
    lines += [f"no place: {each.pod}: {each.message}" for each in answer.unplaced[:MOST_PODS]]
    return "\n".join([*lines, *uncertainty_lines(answer.uncertain)])


def _draw(answer: Purchase, holders: Holders) -> None:
    holders.place(answer.pods)


def _phrase(asked: PurchaseRequest) -> str:
    if not asked.objects:
        return "Which nodes are the cheapest for everything that waits?"
    copies = f"{asked.count} x " if asked.count is not None else ""
    return (
        f"Which nodes are the cheapest for everything that waits and {copies}{name_objects(asked.objects)}?"
    )


def _state_result(answer: Purchase) -> str:
    if not answer.nodes and not answer.unplaced:
        return "None: everything fits on the nodes that are there."
    bought = ", ".join(f"{each.count} x {each.type}" for each in answer.nodes) or "No nodes"
    proof = (
        "No other choice costs less." if answer.optimal else f"No choice costs less than {answer.bound:g}."
    )
    missing = f" {count(len(answer.unplaced), 'pod')} would still have no place." if answer.unplaced else ""
    return f"{bought}, for {answer.cost:g}.{missing} {proof}"


def _tables(answer: Purchase) -> Sequence[Table]:
    rows = [(each.type, each.count, each.price, round(each.count * each.price, 6)) for each in answer.nodes]
    found = [
        Table("What to buy", ("type", "count", "price", "cost"), rows),
        tabulate_places("Where the pods go", answer.pods),
    ]
    if answer.unplaced:
        found.append(tabulate_places("Pods without a place", answer.unplaced))
    return found


def _bring(door: Door, asked: PurchaseRequest, answer: Purchase) -> Objects:
    objects = door.planner.objects
    types = {each.name: each for each in door.types(asked.types)}
    names = dict.fromkeys(place.node for place in answer.pods)
    for name in names:
        # A new node is named after its type, with a number.
        type_ = types.get(name.rpartition("-")[0])
        if type_ is not None and name not in objects.of(NODES):
            objects = objects.with_objects(type_.node(name))
    return objects


QUESTION = Question(
    "nodes",
    "the cheapest nodes on which everything that waits fits",
    PurchaseRequest,
    _ask,
    _text,
    _add_words,
    _read_words,
    _draw,
    phrase=_phrase,
    headline=_state_result,
    tables=_tables,
    bring=_bring,
)
