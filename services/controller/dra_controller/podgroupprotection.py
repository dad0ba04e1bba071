"""Keep a deleted PodGroup, by its finalizer, until all of its pods have ended.

Mirrors pkg/controller/scheduling/podgroupprotection/podgroup_protection_controller.go.
"""

from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS
from dra_shared.api.scheduling import PodGroup
from dra_shared.claims import pod_group_name
from dra_shared.client.errors import NotFound
from dra_shared.log import logger
from dra_shared.podgroups import pod_groups
from msgspec.structs import replace

from dra_controller.framework import Context, QueueController
from dra_controller.pods import is_terminal

# The API server adds it to each new PodGroup.
FINALIZER = "scheduling.k8s.io/podgroup-protection"
_MEMBERS = "podGroupMembers"

_log = logger(__name__)


class PodGroupProtectionController(QueueController):
    """The podgroup-protection-controller of kube-controller-manager."""

    name = "podgroup-protection-controller"
    queue_name = "podgroupprotection"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._resource = pod_groups(context.features.version)
        groups, pods = self.watch(self._resource), self.watch(PODS)
        self._groups, self._pods = groups.store, pods.store
        self._pods.add_index(_MEMBERS, _group_of)
        groups.add_handler(self._group_changed, lambda _, new: self._group_changed(new))
        pods.add_handler(self._pod_changed, lambda _, new: self._pod_changed(new), self._queue_group)

    @classmethod
    def is_wanted(cls, context: Context) -> bool:
        return context.features.enabled("GenericWorkload")

    def _group_changed(self, group: PodGroup) -> None:
        if _is_candidate(group):
            self.queue.add(group.key)

    def _pod_changed(self, pod: Pod) -> None:
        if is_terminal(pod):
            self._queue_group(pod)

    def _queue_group(self, pod: Pod) -> None:
        name = pod_group_name(pod)
        if name is not None:
            self.queue.add(f"{pod.metadata.namespace}/{name}")

    async def reconcile(self, key: str) -> None:
        group = self._groups.get(key)
        if group is None or not _is_candidate(group) or self._pods.by_index(_MEMBERS, key):
            return
        # The informer may not have reported a pod of the group yet. If there is one, its later events enqueue
        # the group again.
        pods = await self._client.list(PODS, group.metadata.namespace)
        if any(key in _group_of(pod) for pod in pods.items):
            return
        left = tuple(name for name in group.metadata.finalizers if name != FINALIZER)
        try:
            await self._client.update(
                self._resource, replace(group, metadata=replace(group.metadata, finalizers=left))
            )
        except NotFound:
            return
        _log.info("removed the finalizer of a deleted pod group", podgroup=key)


def _group_of(pod: Pod) -> list[str]:
    name = pod_group_name(pod)
    return [f"{pod.metadata.namespace}/{name}"] if name is not None and not is_terminal(pod) else []


def _is_candidate(group: PodGroup) -> bool:
    return group.metadata.deletion_timestamp is not None and FINALIZER in group.metadata.finalizers
