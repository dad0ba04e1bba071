"""PodDisruptionBudgets in preemption (upstream's ``filterPodsWithPDBViolation``)."""

from collections.abc import Iterable

from dra_shared.api.pod import Pod
from dra_shared.api.policy import PodDisruptionBudget
from dra_shared.selectors import NOTHING, LabelSelector, SelectorError, label_selector


def split_by_budgets(
    pods: Iterable[Pod], budgets: Iterable[PodDisruptionBudget]
) -> tuple[list[Pod], list[Pod]]:
    """Split pods into those whose eviction would violate a budget, and the others, if evicted in this order."""
    allowances = [_Allowance(budget) for budget in budgets]
    violating: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        # Charge every budget, even if one of them is already exhausted.
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
        """Subtract the pod's eviction from the budget. Return True if it exceeds the budget."""
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
