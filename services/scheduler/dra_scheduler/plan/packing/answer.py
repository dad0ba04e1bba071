"""The answer of ``plan pack``."""

import msgspec
from dra_shared.api.meta import Struct

from dra_scheduler.plan.fit import PodPlace
from dra_scheduler.plan.moves import Move
from dra_scheduler.plan.tables import table


class Largest(Struct):
    """The largest free devices of one class on a node: ``count`` devices of the largest shape.

    ``capacity`` is that of such a device, or what is left of it if the device is shared.
    """

    device_class: str = msgspec.field(name="class")
    shape: str
    count: int
    capacity: dict[str, str] = msgspec.field(default_factory=dict)


class NodeRoom(Struct):
    """A node. ``stranded`` are free devices by shape that none of the pod shapes can use.

    They stay free even if the node is filled with pods of any one shape. ``counters``
    (``driver/pool/set/counter``) and ``shares`` (``driver/pool/device/capacity``) have amounts that are left
    over in the same way. ``takes`` has for each shape the number of further pods that would fit, if only pods
    of that shape were added.
    """

    node: str
    stranded: dict[str, int] = msgspec.field(default_factory=dict)
    counters: dict[str, str] = msgspec.field(default_factory=dict)
    shares: dict[str, str] = msgspec.field(default_factory=dict)
    takes: dict[str, int] = msgspec.field(default_factory=dict)
    largest: tuple[Largest, ...] = ()


class Room(Struct):
    """The smallest set of moves that makes room for the wanted pods.

    ``moves`` happen before the pods are ``placed``. Fewer than ``at_least`` moves are not enough: all smaller
    sets were tried. If not ``found``, no tried number of moves suffices, and ``message`` is that of the
    scheduler's last attempt.
    """

    found: bool
    at_least: int = 0
    moves: tuple[Move, ...] = ()
    placed: tuple[PodPlace, ...] = ()
    message: str = ""


class Packing(Struct):
    """The answer.

    ``shapes`` are pods that represent the waiting pods (if none wait: all pods with claims), with their
    numbers. ``free`` and ``stranded`` count devices by shape. ``room`` is set if pods were wanted. Without
    ``complete`` the search was interrupted. ``left_out`` are workloads of unknown kinds, whose pods are not
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
        """True if the wanted pods fit after the moves or, without wanted pods, if nothing is stranded."""
        if not self.complete or self.left_out:
            return False
        return self.room.found if self.room is not None else not self.stranded


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} x {shape}" for shape, count in counts.items())
