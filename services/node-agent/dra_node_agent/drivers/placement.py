"""The nodes that a driver runs on: ``NAME`` is every node, ``NAME@0,2-4`` the agent's nodes with these numbers."""

import re
from dataclasses import dataclass

from dra_driverkit.errors import DriverConfigError

_PART = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


@dataclass(frozen=True)
class Placement:
    """A driver's name, and the numbers of its nodes, or None for all."""

    name: str
    nodes: frozenset[int] | None = None

    def includes(self, node: int) -> bool:
        """True if the driver runs on the node with that number."""
        return self.nodes is None or node in self.nodes


def parse_placement(text: str, count: int) -> Placement:
    """Parse the value of ``--driver`` for ``count`` nodes.

    Raises:
        DriverConfigError: the nodes are not numbers, or do not exist.
    """
    name, at, where = text.rpartition("@")
    if not at:
        return Placement(text)
    nodes: set[int] = set()
    for part in where.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise DriverConfigError(f"driver {text!r}: want NAME@NODES, such as {name}@0,2-4")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < count:
            raise DriverConfigError(f"driver {text!r}: there are only the nodes 0 to {count - 1}")
        nodes.update(range(first, last + 1))
    return Placement(name, frozenset(nodes))
