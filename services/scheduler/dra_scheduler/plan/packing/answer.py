"""The answer of ``plan pack``."""

import msgspec
from dra_shared.api.meta import Struct

from dra_scheduler.plan.fit import PodPlace
from dra_scheduler.plan.moves import Move
from dra_scheduler.plan.tables import table


class Largest(Struct):
    """What a claim of one class could still get of a node: ``count`` devices of its largest shape.

    ``capacity`` is what such a device has, of shared devices what is left of it.
    """

    device_class: str = msgspec.field(name="class")
    shape: str
    count: int
    capacity: dict[str, str] = msgspec.field(default_factory=dict)


class NodeRoom(Struct):
    """A node. ``stranded`` are free devices by shape that none of the shapes asked for can use.

    They stay free whichever shape the node is filled with. ``counters`` (``driver/pool/set/counter``) and ``shares``
    (``driver/pool/device/capacity``) have amounts that are left over in the same way. ``takes`` says how many more pods
    of each shape would fit on the node, if all were of that shape.
    """

    node: str
    stranded: dict[str, int] = msgspec.field(default_factory=dict)
    counters: dict[str, str] = msgspec.field(default_factory=dict)
    shares: dict[str, str] = msgspec.field(default_factory=dict)
    takes: dict[str, int] = msgspec.field(default_factory=dict)
    largest: tuple[Largest, ...] = ()


class Room(Struct):
    """The fewest moves that make room for the wanted pods.

    ``moves`` are made before ``placed`` come. Fewer than ``at_least`` moves are not enough: all of them were tried. Not
    ``found``: there is no way with so many moves as were tried, and ``message`` is the scheduler's.
    """

    found: bool
    at_least: int = 0
    moves: tuple[Move, ...] = ()
    placed: tuple[PodPlace, ...] = ()
    message: str = ""


class Packing(Struct):
    """The answer.

    ``shapes`` are pods that stand for those that wait (where none waits: for all that have claims), and how many there
    are of each. ``free`` and ``stranded`` count devices by shape. ``room`` is there if pods were wanted.
    Without ``complete`` the search was interrupted. ``left_out`` are workloads of unknown kinds, whose pods are not
    counted.
    """

    shapes: dict[str, int]
    waiting: bool
    free: dict[str, int] = msgspec.field(default_factory=dict)
    stranded: dict[str, int] = msgspec.field(default_factory=dict)
    nodes: tuple[NodeRoom, ...] = ()
    room: Room | None = None
    complete: bool = True
    uncertain: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        rows = [
            (
                node.node,
                _counts(node.stranded),
                "; ".join(f"{each.count} x {each.shape}" for each in node.largest),
            )
            for node in self.nodes
        ]
        caption = f"stranded: {_counts(self.stranded) or 'nothing'}"
        return table(caption, ("node", "stranded", "largest"), rows)

    @property
    def good(self) -> bool:
        """Whether there is room for what was wanted, or where nothing was, whether nothing is stranded."""
        if not self.complete or self.left_out:
            return False
        return self.room.found if self.room is not None else not self.stranded


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} x {shape}" for shape, count in counts.items())
