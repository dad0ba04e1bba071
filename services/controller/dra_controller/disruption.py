"""Counts for each PodDisruptionBudget how many of its pods may be evicted now.

Mirrors pkg/controller/disruption/disruption.go.
"""

from collections.abc import Sequence
from typing import Any

from dra_shared.api.meta import Condition, LabelSelector
from dra_shared.api.pod import Pod
from dra_shared.api.policy import PodDisruptionBudget, PodDisruptionBudgetStatus
from dra_shared.api.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from dra_shared.claims import controller_of
from dra_shared.client.errors import NotFound
from dra_shared.client.events import reference
from dra_shared.clock import parse_rfc3339, rfc3339
from dra_shared.selectors import label_selector
from msgspec.structs import replace

from dra_controller.deployment.rolling import scale_value
from dra_controller.framework import Context, QueueController
from dra_controller.pods import is_ready

# How long an eviction counts if the deletion of the pod was not seen (upstream's DeletionTimeout).
_EVICTION_SECONDS = 120.0
_NAMESPACE = "namespace"
_ALLOWED = "DisruptionAllowed"


class DisruptionController(QueueController):
    """The disruption-controller of kube-controller-manager."""

    name = "disruption-controller"
    queue_name = "disruption"
    workers = 1

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._recorder = context.recorder("controllermanager")
        budgets, pods = self.watch(POD_DISRUPTION_BUDGETS), self.watch(PODS)
        self._budgets, self._pods = budgets.store, pods.store
        self._owners: dict[str, Any] = {
            DEPLOYMENTS.kind: self.watch(DEPLOYMENTS).store,
            REPLICA_SETS.kind: self.watch(REPLICA_SETS).store,
            REPLICATION_CONTROLLERS.kind: self.watch(REPLICATION_CONTROLLERS).store,
            STATEFUL_SETS.kind: self.watch(STATEFUL_SETS).store,
        }
        self._budgets.add_index(_NAMESPACE, lambda budget: [budget.metadata.namespace])
        self._pods.add_index(_NAMESPACE, lambda pod: [pod.metadata.namespace])
        budgets.add_handler(self._enqueue, lambda _, new: self._enqueue(new))
        pods.add_handler(self._pod_changed, lambda _, new: self._pod_changed(new), self._pod_changed)

    def _enqueue(self, budget: PodDisruptionBudget) -> None:
        self.queue.add(budget.key)

    def _pod_changed(self, pod: Pod) -> None:
        matching = [
            budget
            for budget in self._budgets.by_index(_NAMESPACE, pod.metadata.namespace)
            if label_selector(budget.spec.selector).matches(pod.metadata.labels)
        ]
        matching.sort(key=lambda budget: budget.metadata.name)
        for budget in matching:
            self.queue.add(budget.key)
        if len(matching) > 1:
            # Upstream counts the pod for the first budget only. An eviction is refused either way.
            chosen = matching[0].metadata.name
            where = f'"{pod.metadata.namespace}"/"{pod.metadata.name}"'
            text = f'Pod {where} matches multiple PodDisruptionBudgets.  Chose "{chosen}" arbitrarily.'
            self._recorder.event(reference(PODS, pod), "Warning", "MultiplePodDisruptionBudgets", text)

    async def reconcile(self, key: str) -> None:
        budget = self._budgets.get(key)
        if budget is None or budget.metadata.deletion_timestamp is not None:
            return
        matches = label_selector(budget.spec.selector).matches
        pods = [
            pod
            for pod in self._pods.by_index(_NAMESPACE, budget.metadata.namespace)
            if matches(pod.metadata.labels)
        ]
        if not pods:
            involved = reference(POD_DISRUPTION_BUDGETS, budget)
            self._recorder.event(involved, "Normal", "NoPods", "No matching pods found")
        status = self._count(budget, pods)
        if status == budget.status:
            return
        try:
            # Evictions also update the status. The resource version ensures that this write does not overwrite
            # their counts.
            await self._client.update(
                POD_DISRUPTION_BUDGETS, replace(budget, status=status), subresource="status"
            )
        except NotFound:
            return

    def _count(self, budget: PodDisruptionBudget, pods: Sequence[Pod]) -> PodDisruptionBudgetStatus:
        disrupted = self._disrupted_pods(budget, {pod.metadata.name: pod for pod in pods})
        healthy = sum(
            pod.metadata.deletion_timestamp is None and pod.metadata.name not in disrupted and is_ready(pod)
            for pod in pods
        )
        expected, desired = self._count_expected(budget, pods)
        allowed = max(healthy - desired, 0) if expected > 0 else 0
        return PodDisruptionBudgetStatus(
            conditions=self._conditions(budget, allowed),
            current_healthy=healthy,
            desired_healthy=desired,
            disrupted_pods=disrupted,
            disruptions_allowed=allowed,
            expected_pods=expected,
            observed_generation=budget.metadata.generation or None,
        )

    def _disrupted_pods(self, budget: PodDisruptionBudget, pods: dict[str, Pod]) -> dict[str, str | None]:
        now = self._clock.now()
        kept: dict[str, str | None] = {}
        for name, since in budget.status.disrupted_pods.items():
            pod = pods.get(name)
            if pod is None or pod.metadata.deletion_timestamp is not None or since is None:
                continue
            left = _EVICTION_SECONDS - (now - parse_rfc3339(since)).total_seconds()
            if left > 0:
                kept[name] = since
                self.queue.add_after(budget.key, left)
        return kept

    def _count_expected(self, budget: PodDisruptionBudget, pods: Sequence[Pod]) -> tuple[int, int]:
        """Return how many pods there should be, and how many of them must be healthy."""
        most, least = budget.spec.max_unavailable, budget.spec.min_available
        if most is None and isinstance(least, int):
            return len(pods), least
        if any(controller_of(pod) is None for pod in pods):
            text = (
                f"Pods selected by this PodDisruptionBudget (selector: {_as_go(budget.spec.selector)}) were found to "
                "be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in "
                'undefined behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to '
                "an integer value."
            )
            involved = reference(POD_DISRUPTION_BUDGETS, budget)
            self._recorder.event(involved, "Warning", "UnmanagedPods", text)
        expected = self._count_wanted(pods)
        if most is not None:
            return expected, max(expected - scale_value(most, expected, up=True), 0)
        return expected, scale_value(least, expected, up=True)

    def _count_wanted(self, pods: Sequence[Pod]) -> int:
        """Return the sum of the replicas that the controllers of the pods ask for, each counted once."""
        found: dict[str, int] = {}
        for pod in pods:
            owner, namespace = controller_of(pod), pod.metadata.namespace
            parent = self._owner(owner, namespace)
            if parent is None:
                continue
            above = controller_of(parent)
            if above is not None and above.kind == DEPLOYMENTS.kind:
                parent = self._owner(above, namespace) or parent
            found[parent.metadata.uid] = 1 if parent.spec.replicas is None else parent.spec.replicas
        return sum(found.values())

    def _owner(self, owner: Any, namespace: str) -> Any:
        store = self._owners.get(owner.kind) if owner is not None else None
        found = store.get(f"{namespace}/{owner.name}") if store is not None else None
        return found if found is not None and found.metadata.uid == owner.uid else None

    def _conditions(self, budget: PodDisruptionBudget, allowed: int) -> tuple[Condition, ...]:
        status, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
        old = next((entry for entry in budget.status.conditions if entry.type == _ALLOWED), None)
        since = (
            old.last_transition_time
            if old is not None and old.status == status
            else rfc3339(self._clock.now())
        )
        made = Condition(
            type=_ALLOWED,
            status=status,
            observed_generation=budget.metadata.generation or None,
            last_transition_time=since,
            reason=reason,
        )
        return (*(entry for entry in budget.status.conditions if entry.type != _ALLOWED), made)


def _as_go(selector: LabelSelector | None) -> str:
    """Return the selector as Go prints it, for the message of an event."""
    if selector is None:
        return "nil"
    labels = "".join(f"{name}: {value}," for name, value in sorted(selector.match_labels.items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{each.key},Operator:{each.operator},Values:[{' '.join(each.values)}],}},"
        for each in selector.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
