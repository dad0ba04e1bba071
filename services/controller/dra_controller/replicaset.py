"""Keeps as many pods as a ReplicaSet asks for.

Mirrors pkg/controller/replicaset/replica_set.go.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

from dra_shared.api.apps import ReplicaSetCondition, ReplicaSetStatus
from dra_shared.api.pod import Pod
from dra_shared.api.resources import REPLICA_SETS, Resource
from dra_shared.claims import controller_of
from dra_shared.client.errors import ApiError
from dra_shared.clock import rfc3339
from msgspec.structs import replace

from dra_controller.framework import Context
from dra_controller.pods import (
    OWNER_INDEX,
    controller_reference,
    deletion_order,
    is_active,
    is_ready,
    is_terminal,
    pod_from_template,
    seconds_until_available,
)
from dra_controller.workload import TERMINATING, WorkloadController, index_by_owner


class ReplicaSetController(WorkloadController):
    """The replicaset-controller of kube-controller-manager."""

    name = "replicaset-controller"
    queue_name = "replicaset"
    owner: Resource[Any] = REPLICA_SETS
    status: ClassVar[type[Any]] = ReplicaSetStatus
    condition: ClassVar[type[Any]] = ReplicaSetCondition
    counts_terminating: ClassVar[bool] = True
    """True if the status says how many pods are terminating."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        index_by_owner(self.owners)

    async def reconcile(self, key: str) -> None:
        owner = self.owners.store.get(key)
        if owner is None or owner.spec.template is None:
            return
        satisfied = self.is_settled(owner)
        owned = await self.pod_ownership.claim(owner, self.selector_of(owner), self.pods.store)
        active = [pod for pod in owned if is_active(pod)]
        missing = (1 if owner.spec.replicas is None else owner.spec.replicas) - len(active)
        failure: ApiError | None = None
        if satisfied and owner.metadata.deletion_timestamp is None:
            try:
                if missing > 0:
                    pod = pod_from_template(owner.spec.template, controller_reference(self.owner, owner))
                    await self.create_pods(owner, [pod] * missing)
                elif missing < 0:
                    await self.delete_pods(owner, self._surplus(owner, active, -missing))
            except ApiError as error:
                failure = error
        conditions = self._conditions(owner, "FailedCreate" if missing > 0 else "FailedDelete", failure)
        await self._write_status(owner, owned, active, conditions)
        if failure is not None and not failure.has_cause(TERMINATING):
            raise failure

    def _surplus(self, owner: Any, active: Sequence[Pod], number: int) -> list[Pod]:
        """Return the pods to delete: on crowded nodes first, counting those of all ReplicaSets of a Deployment."""
        above = controller_of(owner)
        siblings = () if above is None else self.owners.store.by_index(OWNER_INDEX, above.uid)
        neighbours = Counter(
            pod.spec.node_name
            for sibling in siblings
            for pod in self.pods.store.by_index(OWNER_INDEX, sibling.metadata.uid)
            if is_active(pod) and pod.spec.node_name
        )
        return deletion_order(active, neighbours)[:number]

    def _conditions(self, owner: Any, reason: str, failure: ApiError | None) -> list[Any]:
        known = [entry for entry in owner.status.conditions if entry.type == "ReplicaFailure"]
        others = [entry for entry in owner.status.conditions if entry.type != "ReplicaFailure"]
        if failure is None:
            return others
        made = self.condition(
            type="ReplicaFailure",
            status="True",
            reason=reason,
            message=str(failure),
            last_transition_time=rfc3339(self._clock.now()),
        )
        return others + (known or [made])

    async def _write_status(
        self, owner: Any, owned: Sequence[Pod], active: Sequence[Pod], conditions: Sequence[Any]
    ) -> None:
        labels = owner.spec.template.metadata.labels.items()
        now = self._clock.now()
        waits = [seconds_until_available(pod, owner.spec.min_ready_seconds or 0, now) for pod in active]
        status = self.status(
            replicas=len(active),
            fully_labeled_replicas=sum(labels <= pod.metadata.labels.items() for pod in active) or None,
            ready_replicas=sum(is_ready(pod) for pod in active) or None,
            available_replicas=sum(wait == 0 for wait in waits) or None,
            observed_generation=owner.metadata.generation or None,
            conditions=tuple(conditions),
        )
        if self.counts_terminating:
            going = sum(pod.metadata.deletion_timestamp is not None and not is_terminal(pod) for pod in owned)
            status = replace(status, terminating_replicas=going)
        if later := [wait for wait in waits if wait]:
            self.queue.add_after(owner.key, min(later))
        if status != owner.status:
            await self._client.update(self.owner, replace(owner, status=status), subresource="status")
