"""PodDisruptionBudgets in preemption (upstream's ``filterPodsWithPDBViolation``)."""

from collections.abc import Iterable

from dra_shared.api.pod import Pod
from dra_shared.api.policy import PodDisruptionBudget
from dra_shared.selectors import NOTHING, LabelSelector, SelectorError, label_selector


def split_by_budgets(
    pods: Iterable[Pod], budgets: Iterable[PodDisruptionBudget]
) -> tuple[list[Pod], list[Pod]]:
    """The pods whose eviction would violate a budget, and the others, if all of them were evicted in this order."""
    allowances = [_Allowance(budget) for budget in budgets]
    violating: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        # Every budget is charged, also once one of them is overdrawn.
        overdrawn = [allowance.charge(pod) for allowance in allowances]
        (violating if any(overdrawn) else others).append(pod)
    return violating, others


class _Allowance:
    def __init__(self, budget: PodDisruptionBudget) -> None:
        self._namespace = budget.metadata.namespace
        self._selector = _selector(budget)
        self._under_way = budget.status.disrupted_pods
        self._left = budget.status.disruptions_allowed

    def charge(self, pod: Pod) -> bool:
        """Take the pod's eviction off what is allowed; whether it is more than that."""
        meta = pod.metadata
        if (
            meta.namespace != self._namespace
            or not meta.labels
            or self._selector.empty
            or not self._selector.matches(meta.labels)
            or meta.name in self._under_way
        ):
            return False
        self._left -= 1
        return self._left < 0


def _selector(budget: PodDisruptionBudget) -> LabelSelector:
    try:
        return label_selector(budget.spec.selector)
    except SelectorError:
        return NOTHING
