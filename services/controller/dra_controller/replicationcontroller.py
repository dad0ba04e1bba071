"""Keeps as many pods as a ReplicationController asks for."""

from dra_shared.api.core import (
    ReplicationController,
    ReplicationControllerCondition,
    ReplicationControllerStatus,
)
from dra_shared.api.meta import LabelSelector
from dra_shared.api.pod import Pod
from dra_shared.api.resources import REPLICATION_CONTROLLERS
from dra_shared.client.errors import ApiError
from dra_shared.clock import rfc3339
from msgspec.structs import replace

from dra_controller.pods import (
    available_in,
    controller_reference,
    deletion_order,
    from_template,
    is_active,
    is_ready,
)
from dra_controller.workload import TERMINATING, WorkloadController


class ReplicationManager(WorkloadController):
    """kube-controller-manager's replicationcontroller-controller."""

    name = "replicationcontroller-controller"
    queue_name = "replicationmanager"
    event_source = "replication-controller"
    owner = REPLICATION_CONTROLLERS

    def selector_of(self, owner: ReplicationController) -> LabelSelector | None:
        return LabelSelector(match_labels=owner.spec.selector) if owner.spec.selector else None

    async def reconcile(self, key: str) -> None:
        owner: ReplicationController | None = self.owners.store.get(key)
        if owner is None or owner.spec.template is None:
            return
        satisfied = self.settled(owner)
        owned = await self.pod_ownership.claim(owner, self.selector_of(owner), self.pods.store)
        active = [pod for pod in owned if is_active(pod)]
        failure: ApiError | None = None
        missing = owner.spec.replicas - len(active)
        if satisfied and owner.metadata.deletion_timestamp is None:
            try:
                if missing > 0:
                    pod = from_template(
                        owner.spec.template, controller_reference(REPLICATION_CONTROLLERS, owner)
                    )
                    await self.create_pods(owner, [pod] * missing)
                elif missing < 0:
                    await self.delete_pods(owner, deletion_order(active, {})[:-missing])
            except ApiError as error:
                failure = error
        await self._write_status(owner, active, "FailedCreate" if missing > 0 else "FailedDelete", failure)
        if failure is not None and not failure.has_cause(TERMINATING):
            raise failure

    async def _write_status(
        self, owner: ReplicationController, active: list[Pod], reason: str, failure: ApiError | None
    ) -> None:
        now = self._clock.now()
        waits = [available_in(pod, owner.spec.min_ready_seconds, now) for pod in active]
        template = owner.spec.template
        labels = template.metadata.labels.items() if template is not None else {}.items()
        known = [entry for entry in owner.status.conditions if entry.type == "ReplicaFailure"]
        conditions = [entry for entry in owner.status.conditions if entry.type != "ReplicaFailure"]
        if failure is not None:
            conditions += known or [
                ReplicationControllerCondition(
                    type="ReplicaFailure",
                    status="True",
                    reason=reason,
                    message=str(failure),
                    last_transition_time=rfc3339(now),
                )
            ]
        status = ReplicationControllerStatus(
            replicas=len(active),
            fully_labeled_replicas=sum(labels <= pod.metadata.labels.items() for pod in active) or None,
            ready_replicas=sum(is_ready(pod) for pod in active) or None,
            available_replicas=sum(wait == 0 for wait in waits) or None,
            observed_generation=owner.metadata.generation or None,
            conditions=tuple(conditions),
        )
        later = [wait for wait in waits if wait]
        if later:
            self.queue.add_after(owner.key, min(later))
        if status != owner.status:
            await self._client.update(
                REPLICATION_CONTROLLERS, replace(owner, status=status), subresource="status"
            )
