"""The answer of ``plan nodes``."""

from dra_shared.api.meta import Struct

from dra_scheduler.plan.fit import PodPlace
from dra_scheduler.plan.tables import table


class Bought(Struct):
    """``count`` nodes of one type, at ``price`` each."""

    type: str
    count: int
    price: float


class Purchase(Struct):
    """The cheapest nodes found on which everything fits.

    No choice of nodes of these types costs less than ``bound``. ``gap`` is therefore the largest fraction of
    ``cost`` that could be saved. It is zero if ``optimal`` is set. ``wanted`` is the number of waiting pods,
    and ``pods`` has their places. With ``nominated``, the scheduler only chooses these places if the pods'
    ``status.nominatedNodeName`` names them, as an autoscaler could do. Otherwise the scheduler finds these
    places without help. ``unplaced`` has the pods without a place, and the reasons. Without ``complete`` the
    search was interrupted. ``uncertain`` lists objects that the world lacks and other reasons why the answer
    may be wrong. ``left_out`` are workloads of unknown kinds, whose pods are not counted.
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
        """True if everything fits."""
        return self.complete and not self.left_out and not self.unplaced
