"""The answer of ``plan nodes``."""

from dra_shared.api.meta import Struct

from dra_scheduler.plan.fit import PodPlace
from dra_scheduler.plan.tables import table


class Bought(Struct):
    """So many nodes of one type, at ``price`` each."""

    type: str
    count: int
    price: float


class Purchase(Struct):
    """The cheapest nodes found on which everything fits.

    No other nodes of these types cost less than ``bound``, so that ``gap`` is the largest part of ``cost`` that could
    be saved; with ``optimal`` there is nothing to save. ``wanted`` pods wait for a node, and ``pods`` says where each
    goes. With ``nominated`` they go there if their ``status.nominatedNodeName`` says so, as an autoscaler's would;
    without it the scheduler finds these places by itself. ``unplaced`` has the pods for which there is no place, with
    the reason. Without ``complete`` the search was interrupted. ``uncertain`` is what the world lacks.
    ``left_out`` are workloads of unknown kinds, whose pods are not counted.
    """

    cost: float
    bound: float
    gap: float
    optimal: bool
    wanted: int
    nodes: tuple[Bought, ...] = ()
    pods: tuple[PodPlace, ...] = ()
    nominated: bool = False
    unplaced: tuple[PodPlace, ...] = ()
    complete: bool = True
    uncertain: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        rows = [(each.type, each.count, f"{each.price:g}") for each in self.nodes]
        return table(f"{self.cost:g}, at least {self.bound:g}", ("type", "nodes", "price"), rows)

    @property
    def good(self) -> bool:
        """Whether everything fits."""
        return self.complete and not self.left_out and not self.unplaced
