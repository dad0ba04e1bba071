"""``plan aligned``: free sets of devices that share the value of an attribute, on each node."""

from collections.abc import Mapping

from dra_shared.api.meta import Struct
from dra_shared.api.node import Node

from dra_scheduler.allocator import AllocationError
from dra_scheduler.allocator.pools import PoolDevice
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.free import shape_of
from dra_scheduler.plan.tables import table


class AlignedNode(Struct):
    """A node: the number of ``sets``, ``rails`` with that number by value, and ``spare`` devices by class."""

    node: str
    sets: int
    rails: dict[str, int]
    spare: dict[str, int]


class Aligned(Struct):
    """The answer: ``sets`` is the number of free sets on all nodes.

    ``set`` describes the devices of one set. ``unaligned`` is the number of sets that would be free if their
    devices need not share the attribute's value.
    """

    set: str
    attribute: str
    sets: int
    unaligned: int
    nodes: tuple[AlignedNode, ...] = ()
    complete: bool = True
    uncertain: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        rows = [(node.node, node.sets) for node in self.nodes]
        return table(f"{self.sets} free sets", ("node", "sets"), rows)

    @property
    def good(self) -> bool:
        """True if a set is free."""
        return self.sets > 0


def find_aligned(
    manager: DRAManager, nodes: list[Node], classes: Mapping[str, int], attribute: str
) -> Aligned:
    """Return the free sets, each with so many devices of each class.

    If the attribute is a list, its first value counts.
    """
    found = []
    unaligned = 0
    for node in sorted(nodes, key=lambda node: node.metadata.name):
        free = {name: _free_by_value(manager, node, name, attribute) for name in classes}
        totals = {name: sum(of_class.values()) for name, of_class in free.items()}
        if not any(totals.values()):
            continue
        unaligned += min(totals[name] // number for name, number in classes.items())
        values = sorted({value for of_class in free.values() for value in of_class if value})
        rails = {
            value: min(free[name].get(value, 0) // number for name, number in classes.items())
            for value in values
        }
        sets = sum(rails.values())
        spare = {name: totals[name] - sets * number for name, number in classes.items()}
        found.append(AlignedNode(node=node.metadata.name, sets=sets, rails=rails, spare=spare))
    return Aligned(
        set=" and ".join(f"{number} x {name}" for name, number in classes.items()),
        attribute=attribute,
        sets=sum(node.sets for node in found),
        unaligned=unaligned,
        nodes=tuple(found),
    )


def _free_by_value(manager: DRAManager, node: Node, device_class: str, attribute: str) -> dict[str, int]:
    """Return the number of free devices of the class by value of the attribute, "" if it is absent."""
    found: dict[str, int] = {}
    try:
        offers = manager.allocator.offers(node, device_class, shape_of)
    except AllocationError:
        return found
    for offer in offers:
        if offer.refusal is None and not manager.claims.state.in_use(offer.device.id):
            value = _value_of(offer.device, attribute)
            found[value] = found.get(value, 0) + 1
    return found


def _value_of(device: PoolDevice, attribute: str) -> str:
    domain, _, name = attribute.rpartition("/")
    attributes = device.spec.attributes
    # A name without a domain has the driver's name as domain.
    known = attributes.get(attribute) or (attributes.get(name) if domain == device.id.driver else None)
    if known is None:
        return ""
    lists = (known.strings, known.ints, known.versions, known.bools)
    values = [known.string, known.int_, known.version, known.bool_, *(each[0] for each in lists if each)]
    return next((str(value) for value in values if value is not None), "")
