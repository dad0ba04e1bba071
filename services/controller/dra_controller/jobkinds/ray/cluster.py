"""The RayCluster controller.

Mirrors ray-operator/controllers/ray/raycluster_controller.go.
"""

import itertools
import secrets
from collections.abc import Sequence

from dra_shared.api.codec import convert, to_builtins
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS, SERVICES
from dra_shared.client.errors import AlreadyExists, ApiError
from dra_shared.jobkinds.podsets import integer
from dra_shared.jobkinds.ray import desired_replicas
from dra_shared.jsontypes import JsonObject

from dra_controller.expectations import Expectations
from dra_controller.framework import Context
from dra_controller.jobkinds.controller import Draft, JobKindController, with_text_quantities
from dra_controller.jobkinds.operators import RAY_CLUSTERS, Custom
from dra_controller.jobkinds.ray import names
from dra_controller.jobkinds.ray.pods import build_head, build_worker
from dra_controller.jobkinds.ray.status import suspend_state, write_status
from dra_controller.pods import controller_reference, is_active, is_terminal

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def random_suffix() -> str:
    """Return five letters or digits for a name."""
    return "".join(secrets.choice(_LETTERS) for _ in range(5))


class RayClusterController(JobKindController):
    """The controller of ray-project/kuberay for RayClusters."""

    name = "raycluster-controller"
    queue_name = "raycluster"
    operator = "ray"
    owner = RAY_CLUSTERS
    owned = (PODS, SERVICES)
    event_source = "raycluster-controller"
    action = "Create"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._expectations = Expectations(context.clock)
        self.watch(PODS).add_handler(
            self._expectations.note_seen,
            lambda _, new: self._expectations.note_seen(new),
            self._expectations.note_gone,
        )

    async def sync(self, obj: Custom, draft: Draft) -> None:
        if obj.spec.get("managedBy", names.MANAGER) != names.MANAGER:
            return
        failed = False
        try:
            await self._create_services(obj)
            await self._sync_pods(obj, draft)
            _drop_condition(draft, "RayClusterReplicaFailure")
        except ApiError as error:
            failed = True
            heads = [
                one
                for one in self.children(PODS, obj)
                if one.metadata.labels.get(names.GROUP) == names.HEAD_GROUP
            ]
            reason = "FailedCreateWorkerPod" if heads else "FailedCreateHeadPod"
            draft.set_condition("RayClusterReplicaFailure", "True", reason, str(error))
            self.queue.add_after(obj.key, 2.0)
        pods = self.children(PODS, obj)
        service = next(
            (one for one in self.children(SERVICES, obj) if one.metadata.name == names.service_name(obj)),
            None,
        )
        before = draft.status.get("lastUpdateTime")
        write_status(draft, pods, service, failed=failed)
        if draft.status != obj.status or before is None:
            draft.status["lastUpdateTime"] = draft.now

    async def _create_services(self, obj: Custom) -> None:
        known = {one.metadata.name for one in self.children(SERVICES, obj)}
        wanted = [names.build_head_service(obj)]
        if any(integer(group, "numOfHosts", 1) > 1 for group in obj.spec.get("workerGroupSpecs") or ()):
            wanted.append(names.build_headless_service(obj))
        for service in wanted:
            name = service["metadata"]["name"]
            if name not in known and await self.create(SERVICES, service, obj):
                self.report(
                    obj, "Normal", "CreatedService", f"Created service {obj.metadata.namespace}/{name}"
                )

    async def _sync_pods(self, obj: Custom, draft: Draft) -> None:
        pods = self.children(PODS, obj)
        state, where = suspend_state(draft), f"{obj.metadata.namespace}/{obj.metadata.name}"
        if state == "RayClusterSuspending":
            if pods:
                await self.delete(PODS, pods)
                text = f"Deleted Pods for RayCluster {where} due to suspension"
                self.report(obj, "Normal", "DeletedPod", text, "Delete")
            return
        if state == "RayClusterSuspended" or obj.spec.get("suspend"):
            return
        if not self._expectations.is_satisfied(obj.metadata.uid):
            self.queue.add_after(obj.key, self._expectations.seconds_left(obj.metadata.uid) + 0.001)
            return
        heads = [pod for pod in pods if pod.metadata.labels.get(names.NODE_TYPE) == "head"]
        if heads and _is_over(heads[0]):
            await self._delete_ended(obj, heads[:1], "head")
            return
        if not heads:
            skipped = obj.metadata.annotations.get("ray.io/disable-provisioned-head-restart") == "true"
            if skipped and draft.has("RayClusterProvisioned"):
                return
            await self._create_pod(obj, build_head(obj), "head")
        for group in obj.spec.get("workerGroupSpecs") or ():
            name = group["groupName"]
            own = [pod for pod in pods if pod.metadata.labels.get(names.GROUP) == name]
            await self._sync_group(obj, group, own)

    async def _sync_group(self, obj: Custom, group: JsonObject, pods: Sequence[Pod]) -> None:
        if group.get("suspend"):
            await self.delete(PODS, pods)
            return
        hosts = integer(group, "numOfHosts", 1)
        replicas = _group_replicas(pods, hosts)
        # The hosts of a replica are created and deleted together.
        over = [
            pod
            for replica in replicas
            if len(replica) < hosts or any(map(_is_over, replica))
            for pod in replica
        ]
        if over:
            await self._delete_ended(obj, over, "worker")
            return
        leaving = (group.get("scaleStrategy") or {}).get("workersToDelete") or ()
        named = [one for one in replicas if any(pod.metadata.name in leaving for pod in one)]
        kept = [one for one in replicas if one not in named]
        await self.delete(PODS, [pod for replica in named for pod in replica])
        wanted = desired_replicas(group)
        if len(kept) > wanted and not obj.spec.get("enableInTreeAutoscaling"):
            await self.delete(PODS, [pod for replica in kept[: len(kept) - wanted] for pod in replica])
            return
        taken = {one[0].metadata.labels.get(names.REPLICA_INDEX) for one in kept}
        free = (number for number in itertools.count() if str(number) not in taken)
        for _ in range(wanted - len(kept)):
            replica = next(free)
            name = f"{group['groupName']}-{random_suffix()}" if hosts > 1 else ""
            for host in range(hosts):
                await self._create_pod(obj, build_worker(obj, group, replica, host, name), "worker")

    async def _create_pod(self, obj: Custom, pod: JsonObject, kind: str) -> None:
        reason = f"{kind.capitalize()}Pod"
        parent = to_builtins(controller_reference(self.owner, obj))
        namespace = obj.metadata.namespace
        meta = {**pod["metadata"], "namespace": namespace, "ownerReferences": [parent]}
        try:
            made = await self._client.create(
                PODS, convert(PODS, with_text_quantities({**pod, "metadata": meta}))
            )
        except AlreadyExists:
            return
        except ApiError as error:
            text = f"Failed to create worker Pod for the cluster {namespace}/{obj.metadata.name}, {error}"
            if kind == "head":
                text = f"Failed to create head Pod {namespace}/{meta['name']}, {error}"
            self.report(obj, "Warning", f"FailedToCreate{reason}", text)
            raise
        self._expectations.expect_creation(obj.metadata.uid, made)
        self.report(obj, "Normal", f"Created{reason}", f"Created {kind} Pod {namespace}/{made.metadata.name}")

    async def _delete_ended(self, obj: Custom, pods: Sequence[Pod], kind: str) -> None:
        """Delete pods that have ended. New ones are created once they are gone."""
        for pod in pods:
            if pod.metadata.deletion_timestamp is not None:
                continue
            await self.delete(PODS, [pod])
            text = f"Deleted {kind} Pod {pod.key}; Pod status: {pod.status.phase}"
            text += f"; Pod restart policy: {pod.spec.restart_policy}"
            self.report(obj, "Normal", f"Deleted{kind.capitalize()}Pod", text, "Delete")


def _is_over(pod: Pod) -> bool:
    """Return True if the pod has ended, or its Ray container has and will not restart."""
    if is_terminal(pod):
        return True
    if pod.spec.restart_policy != "Never" or not is_active(pod):
        return False
    first = pod.spec.containers[0].name
    return any(
        one.name == first and one.state is not None and one.state.terminated is not None
        for one in pod.status.container_statuses
    )


def _group_replicas(pods: Sequence[Pod], hosts: int) -> list[list[Pod]]:
    """Return the pods of each replica."""
    if hosts == 1:
        return [[pod] for pod in pods]
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        found.setdefault(pod.metadata.labels.get(names.REPLICA_NAME, ""), []).append(pod)
    return list(found.values())


def _drop_condition(draft: Draft, name: str) -> None:
    conditions = draft.status.get("conditions")
    if conditions:
        draft.status["conditions"] = [one for one in conditions if one["type"] != name]
