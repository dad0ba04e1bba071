"""The answer of ``plan sweep``."""

from dra_shared.api.meta import Struct

from dra_scheduler.plan.tables import table


class Estimate(Struct):
    """The mean over the seeds, and its 95% confidence interval. With one seed the interval is the mean."""

    mean: float = 0.0
    low: float = 0.0
    high: float = 0.0


class VariantResult(Struct):
    """A variant: its ``settings``, the ``cost`` of its nodes, and estimates over so many ``seeds``.

    ``wait`` is the mean waiting time of all pods in seconds, ``longest`` the longest waiting time of any pod. A
    pod without a place waits until the timeline's end. ``unplaced`` and ``starved`` are numbers of pods. With
    ``best`` it is on the Pareto front: no other variant costs less without a longer wait.
    """

    name: str
    settings: dict[str, str]
    seeds: int
    cost: float
    wait: Estimate
    p95: Estimate
    longest: Estimate
    utilisation: Estimate
    unplaced: Estimate
    starved: Estimate
    best: bool = False


class Failure(Struct):
    """A trial without a result: its worker process died, or the change of the variant is invalid."""

    variant: str
    seed: int
    message: str


class Sweep(Struct):
    """The answer: the variants in the order of the request, of which ``done`` of all ``trials`` have ended.

    ``front`` has the names of the Pareto front of cost against waiting time, the cheapest first. ``failures``
    name the trials that failed. Without ``complete`` the sweep was interrupted, and the variants' results are
    from the seeds that were finished.
    """

    variants: tuple[VariantResult, ...]
    front: tuple[str, ...]
    trials: int
    done: int
    failures: tuple[Failure, ...] = ()
    complete: bool = True
    uncertain: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        head = ("variant", "cost", "mean wait", "utilisation", "unplaced", "best")
        rows = [
            (v.name, v.cost, v.wait.mean, f"{v.utilisation.mean:.1%}", v.unplaced.mean, "*" if v.best else "")
            for v in self.variants
        ]
        return table(f"Sweep: {self.done} of {self.trials} trials", head, rows)

    @property
    def good(self) -> bool:
        """True if all trials have results."""
        return self.complete and not self.left_out and not self.failures
