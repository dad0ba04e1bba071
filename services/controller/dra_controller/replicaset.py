"""Keeps as many pods as a ReplicaSet asks for."""

from collections import Counter
from collections.abc import Sequence

from dra_shared.api.apps import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
from dra_shared.api.pod import Pod
from dra_shared.api.resources import REPLICA_SETS
from dra_shared.claims import controller_of
from dra_shared.client.errors import ApiError
from dra_shared.clock import rfc3339
from msgspec.structs import replace

from dra_controller.framework import Context
from dra_controller.pods import (
    OWNER_INDEX,
    available_in,
    controller_reference,
    deletion_order,
    from_template,
    is_active,
    is_ready,
    is_terminal,
)
from dra_controller.workload import TERMINATING, WorkloadController, index_by_owner


class ReplicaSetController(WorkloadController):
    """kube-controller-manager's replicaset-controller."""

    name = "replicaset-controller"
    queue_name = "replicaset"
    owner = REPLICA_SETS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        index_by_owner(self.owners)

    async def reconcile(self, key: str) -> None:
        replica_set: ReplicaSet | None = self.owners.store.get(key)
        if replica_set is None:
            return
        satisfied = self.settled(replica_set)
        owned = await self.pod_ownership.claim(replica_set, replica_set.spec.selector, self.pods.store)
        active = [pod for pod in owned if is_active(pod)]
        failure: ApiError | None = None
        reason = ""
        if satisfied and replica_set.metadata.deletion_timestamp is None:
            wanted = _wanted(replica_set)
            try:
                if len(active) < wanted:
                    reason = "FailedCreate"
                    pod = from_template(
                        replica_set.spec.template, controller_reference(REPLICA_SETS, replica_set)
                    )
                    await self.create_pods(replica_set, [pod] * (wanted - len(active)))
                elif len(active) > wanted:
                    reason = "FailedDelete"
                    await self.delete_pods(
                        replica_set, self._surplus(replica_set, active, len(active) - wanted)
                    )
            except ApiError as error:
                failure = error
        terminating = [
            pod for pod in owned if pod.metadata.deletion_timestamp is not None and not is_terminal(pod)
        ]
        await self._write_status(replica_set, active, len(terminating), reason, failure)
        if failure is not None and not failure.has_cause(TERMINATING):
            raise failure

    def _surplus(self, replica_set: ReplicaSet, active: Sequence[Pod], number: int) -> list[Pod]:
        """The pods to delete; on crowded nodes first, counting the pods of related ReplicaSets too."""
        owner = controller_of(replica_set)
        related = active
        if owner is not None:
            related = [
                pod
                for sibling in self.owners.store.by_index(OWNER_INDEX, owner.uid)
                for pod in self.pods.store.by_index(OWNER_INDEX, sibling.metadata.uid)
                if is_active(pod)
            ]
        neighbours = Counter(pod.spec.node_name for pod in related if pod.spec.node_name)
        return deletion_order(active, neighbours)[:number]

    async def _write_status(
        self,
        replica_set: ReplicaSet,
        active: Sequence[Pod],
        terminating: int,
        reason: str,
        failure: ApiError | None,
    ) -> None:
        now = self._clock.now()
        min_ready = replica_set.spec.min_ready_seconds or 0
        labels = replica_set.spec.template.metadata.labels.items()
        waits = [available_in(pod, min_ready, now) for pod in active]
        conditions = [entry for entry in replica_set.status.conditions if entry.type != "ReplicaFailure"]
        if failure is not None:
            known = [entry for entry in replica_set.status.conditions if entry.type == "ReplicaFailure"]
            conditions += known or [
                ReplicaSetCondition(
                    type="ReplicaFailure",
                    status="True",
                    reason=reason,
                    message=str(failure),
                    last_transition_time=rfc3339(now),
                )
            ]
        status = ReplicaSetStatus(
            replicas=len(active),
            fully_labeled_replicas=sum(labels <= pod.metadata.labels.items() for pod in active) or None,
            ready_replicas=sum(is_ready(pod) for pod in active) or None,
            available_replicas=sum(wait == 0 for wait in waits) or None,
            terminating_replicas=terminating,
            observed_generation=replica_set.metadata.generation or None,
            conditions=tuple(conditions),
        )
        later = [wait for wait in waits if wait]
        if later:
            self.queue.add_after(replica_set.key, min(later))
        if status != replica_set.status:
            await self._client.update(REPLICA_SETS, replace(replica_set, status=status), subresource="status")


def _wanted(replica_set: ReplicaSet) -> int:
    return 1 if replica_set.spec.replicas is None else replica_set.spec.replicas
