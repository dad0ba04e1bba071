"""``plan aligned``: how many sets of devices that share an attribute, such as a PCIe root, are still free."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dra_shared.api.meta import Struct
from dra_shared.errors import UserError
from dra_shared.plurals import count

from dra_scheduler.plan.questions.question import Door, Question
from dra_scheduler.plan.questions.texts import MOST_PODS, uncertainty_lines
from dra_scheduler.plan.tables import Table

if TYPE_CHECKING:
    from dra_scheduler.plan.alignment import Aligned
    from dra_scheduler.plan.objects import Objects

_PCIE_ROOT = "resource.kubernetes.io/pcieRoot"


class AlignedRequest(Struct):
    """A set of devices: so many of each class, all with the same value of ``attribute``, as with ``matchAttribute``."""

    classes: dict[str, int]
    attribute: str = _PCIE_ROOT


def _ask(door: Door, asked: AlignedRequest) -> Aligned:
    return door.planner.count_aligned(asked.classes, asked.attribute)


def _add_words(words: argparse.ArgumentParser) -> None:
    words.add_argument(
        "classes", nargs="+", metavar="[COUNTx]CLASS", help="device classes, with how many of each"
    )
    words.add_argument(
        "--attribute",
        default=_PCIE_ROOT,
        help=f"the attribute whose value all devices of a set share ({_PCIE_ROOT})",
    )


def _read_words(chosen: argparse.Namespace, objects: Objects) -> AlignedRequest:
    classes: dict[str, int] = {}
    for text in chosen.classes:
        number, x, name = text.partition("x")
        own = bool(x) and number.isdecimal()
        if own and not int(number):
            raise UserError(f"{text!r}: a set needs at least one device of each class", 2)
        classes[name if own else text] = int(number) if own else 1
    return AlignedRequest(classes=classes, attribute=chosen.attribute)


def _state_result(answer: Aligned) -> str:
    sets = count(answer.sets, "set")
    if answer.sets == answer.unaligned:
        return f"{sets} {'is' if answer.sets == 1 else 'are'} free."
    return f"{sets} {'is' if answer.sets == 1 else 'are'} free, of {answer.unaligned} if alignment did not matter."


def _text(answer: Aligned) -> str:
    lines = [f"{answer.set} with the same {answer.attribute}: {_state_result(answer)}"]
    for node in answer.nodes[:MOST_PODS]:
        rails = ", ".join(f"{value}: {number}" for value, number in node.rails.items() if number)
        spare = ", ".join(f"{number} x {name}" for name, number in node.spare.items() if number)
        lines.append(f"  {node.node}: {count(node.sets, 'set')}{f' ({rails})' if rails else ''}")
        if spare:
            lines.append(f"    free without a partner: {spare}")
    if len(answer.nodes) > MOST_PODS:
        lines.append(f"  and {len(answer.nodes) - MOST_PODS} more; -o json has all")
    return "\n".join([*lines, *uncertainty_lines(answer.uncertain)])


def _phrase(asked: AlignedRequest) -> str:
    devices = " and ".join(f"{number} x {name}" for name, number in asked.classes.items())
    return f"How many sets of {devices} with the same {asked.attribute} are free?"


def _tables(answer: Aligned) -> Sequence[Table]:
    rows = [
        (
            node.node,
            value,
            number,
            node.sets,
            ", ".join(f"{n} x {name}" for name, n in node.spare.items() if n),
        )
        for node in answer.nodes
        for value, number in (node.rails or {"": 0}).items()
    ]
    return [Table("Free sets", ("node", "rail", "sets", "sets of the node", "free without a partner"), rows)]


QUESTION = Question(
    "aligned",
    "how many sets of devices with the same PCIe root, rail or other attribute are free",
    AlignedRequest,
    _ask,
    _text,
    _add_words,
    _read_words,
    phrase=_phrase,
    headline=_state_result,
    tables=_tables,
)
