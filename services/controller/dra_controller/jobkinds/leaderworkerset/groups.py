"""Create the workers of each leader, and restart groups.

Mirrors pkg/controllers/pod_controller.go.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dra_shared.api.apps import ControllerRevision, StatefulSet
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS, STATEFUL_SETS
from dra_shared.claims import controller_of
from dra_shared.client.errors import ApiError
from dra_shared.client.store import Store

from dra_controller.jobkinds.leaderworkerset import sets
from dra_controller.jobkinds.leaderworkerset.admission import split_name
from dra_controller.jobkinds.operators import Custom
from dra_controller.pods import is_ready

if TYPE_CHECKING:
    from dra_controller.jobkinds.leaderworkerset.controller import LeaderWorkerSetController

_POLICIES = ("RecreateGroupOnPodRestart", "RecreateGroupAfterStart")


class Groups:
    """Creates the StatefulSet of the workers of a leader, and deletes leaders whose group must be restarted."""

    def __init__(
        self, controller: "LeaderWorkerSetController", stores: Store[StatefulSet], nodes: Store[Node]
    ) -> None:
        self._controller = controller
        self._sets = stores
        self._nodes = nodes

    async def sync(
        self, obj: Custom, pod: Pod, pods: Sequence[Pod], revisions: Sequence[ControllerRevision]
    ) -> None:
        """Create the workers of a leader, or restart the group of a pod that failed.

        ``pods`` are all of the set's pods.
        """
        if await self._restart(obj, pod, pods) or pod.metadata.deletion_timestamp is not None:
            return
        labels = pod.metadata.labels
        if labels.get(sets.WORKER_INDEX) != "0":
            return
        if not sets.is_shared(obj.spec):
            selector = {sets.NAME: obj.metadata.name, sets.GROUP_INDEX: labels[sets.GROUP_INDEX]}
            await self._controller.create_service(obj, pod.metadata.name, selector, pod)
        if sets.group_size(obj.spec) == 1 or self._sets.get(pod.key) is not None:
            return
        if obj.spec.get("startupPolicy") == "LeaderReady" and not is_ready(pod):
            return
        found = [one for one in revisions if one.metadata.labels[sets.REVISION] == labels[sets.REVISION]]
        if not found:
            # The event of that change triggers the next sync.
            return
        domain: dict[str, str] = {}
        topology = obj.metadata.annotations.get(sets.EXCLUSIVE)
        if topology is not None:
            node = self._nodes.get(pod.spec.node_name) if pod.spec.node_name else None
            if node is None or topology not in node.metadata.labels:
                return
            domain = {topology: node.metadata.labels[topology]}
        await self._create(obj, pod, found[-1], domain)

    async def _create(
        self, obj: Custom, leader: Pod, revision: ControllerRevision, domain: dict[str, str]
    ) -> None:
        controller, name = self._controller, leader.metadata.name
        body = sets.build_workers(obj, sets.restore(obj, revision.data), leader, domain)
        try:
            made = await controller.create(STATEFUL_SETS, body, leader, owner=PODS)
        except ApiError as error:
            text = f"Failed to create worker statefulset for leader pod {name}: {error}"
            controller.report(obj, "Warning", "FailedCreate", text, "Create")
            raise
        if made:
            text = f"Created worker statefulset for leader pod {name}"
            controller.report(obj, "Normal", "GroupsProgressing", text, "Create")

    async def _restart(self, obj: Custom, pod: Pod, pods: Sequence[Pod]) -> bool:
        """Delete the leader if the group has to restart because the pod restarted or was deleted.

        Return True if the leader is deleted.
        """
        policy = sets.group_template(obj.spec).get("restartPolicy")
        gone = pod.metadata.deletion_timestamp is not None
        if policy not in _POLICIES or not (gone or _has_restarted(pod)):
            return False
        later = policy == "RecreateGroupAfterStart" or sets.RECREATE_AFTER_START in obj.metadata.annotations
        if later and _is_pending(obj, pod, pods):
            return False
        leader: Pod | None = pod
        if pod.metadata.labels.get(sets.WORKER_INDEX) != "0":
            leader = next(
                (one for one in pods if one.metadata.name == split_name(pod.metadata.name)[0]), None
            )
            if leader is None or not self._belongs(pod, leader):
                return False
        assert leader is not None
        if leader.metadata.deletion_timestamp is not None:
            return True
        await self._controller.delete(PODS, [leader], "Foreground")
        group = leader.metadata.labels.get(sets.GROUP_INDEX, "")
        text = f"Worker pod {pod.metadata.name} failed, deleted leader pod {leader.metadata.name}"
        self._controller.report(obj, "Normal", "RecreateGroup", f"{text} to recreate group {group}", "Delete")
        return True

    def _belongs(self, pod: Pod, leader: Pod) -> bool:
        """Return True if the pod is a worker of this leader, and not of an earlier one of that name."""
        if leader.metadata.labels.get(sets.REVISION) != pod.metadata.labels.get(sets.REVISION):
            return False
        owner = controller_of(pod)
        workers = self._sets.get(f"{pod.metadata.namespace}/{owner.name}") if owner is not None else None
        if owner is None or workers is None or workers.metadata.uid != owner.uid:
            return False
        parent = controller_of(workers)
        return parent is not None and parent.uid == leader.metadata.uid


def _has_restarted(pod: Pod) -> bool:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return pod.status.phase in ("Running", "Pending") and any(one.restart_count for one in statuses)


def _is_pending(obj: Custom, pod: Pod, pods: Sequence[Pod]) -> bool:
    index = pod.metadata.labels.get(sets.GROUP_INDEX)
    group = [one for one in pods if one.metadata.labels.get(sets.GROUP_INDEX) == index]
    return len(group) != sets.group_size(obj.spec) or any(one.status.phase == "Pending" for one in group)
