"""The LeaderWorkerSet controller: leaders, revisions and status. :mod:`groups` has the workers of each leader.

Mirrors pkg/controllers/leaderworkerset_controller.go.
"""

import functools
from typing import Any

import msgspec
from dra_shared.api.apps import ControllerRevision, StatefulSet
from dra_shared.api.meta import Object
from dra_shared.api.pod import Pod
from dra_shared.api.resources import CONTROLLER_REVISIONS, NODES, PODS, SERVICES, STATEFUL_SETS
from dra_shared.client.errors import ApiError
from dra_shared.client.rest import PatchType
from dra_shared.client.workqueue import Retry
from dra_shared.jsontypes import JsonObject

from dra_controller.framework import Context
from dra_controller.jobkinds.controller import Draft, JobKindController
from dra_controller.jobkinds.leaderworkerset import sets
from dra_controller.jobkinds.leaderworkerset.admission import admit
from dra_controller.jobkinds.leaderworkerset.groups import Groups
from dra_controller.jobkinds.leaderworkerset.rollout import Group, plan_rollout
from dra_controller.jobkinds.operators import LEADER_WORKER_SETS, Custom
from dra_controller.pods import controller_reference, is_ready

_EXCLUSIVE = {"Available": ("Progressing", "UpdateInProgress"), "Progressing": ("Available",)}
_CONDITIONS = {
    "Available": ("AllGroupsReady", "All replicas are ready"),
    "UpdateInProgress": ("GroupsUpdating", "Rolling Upgrade is in progress"),
    "Progressing": ("GroupsProgressing", "Replicas are progressing"),
}


class LeaderWorkerSetController(JobKindController):
    """The controllers of kubernetes-sigs/lws for LeaderWorkerSets and their pods."""

    name = "leaderworkerset-controller"
    queue_name = "leaderworkerset"
    operator = "lws"
    owner = LEADER_WORKER_SETS
    owned = (STATEFUL_SETS, SERVICES, CONTROLLER_REVISIONS)
    event_source = "leaderworkerset"
    action = "Update"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        pods = self.watch(PODS)
        pods.store.add_index(sets.NAME, _set_of)
        self._sets = self.watch(STATEFUL_SETS)
        self._services = self.watch(SERVICES).store
        for informer in (pods, self._sets):
            informer.add_handler(self._enqueue_set, lambda _, new: self._enqueue_set(new), self._enqueue_set)
        self._pods = pods.store
        self._applied: dict[str, tuple[JsonObject, int]] = {}
        self._groups = Groups(self, self._sets.store, self.watch(NODES).store)
        context.pod_admission.add(admit)

    def _enqueue_set(self, obj: Object) -> None:
        name = obj.metadata.labels.get(sets.NAME)
        if name:
            self.queue.add(f"{obj.metadata.namespace}/{name}")

    async def sync(self, obj: Custom, draft: Draft) -> None:
        leaders: StatefulSet | None = self._sets.store.get(obj.key)
        if leaders is not None and leaders.metadata.deletion_timestamp is not None:
            raise Retry(f"the leaders of {obj.key} are being deleted")
        revision, is_new = await self._revision(obj, leaders)
        key = revision.metadata.labels[sets.REVISION]
        pods = self._pods.by_index(sets.NAME, obj.key)
        leading = {
            int(pod.metadata.labels.get(sets.GROUP_INDEX, "-1")): pod
            for pod in pods
            if pod.metadata.labels.get(sets.WORKER_INDEX) == "0"
        }
        number = (leaders.spec.replicas or 0) if leaders is not None else 0
        groups = [self._group(obj, leading.get(index), key) for index in range(number)]
        partition, replicas = plan_rollout(obj.spec, leaders, groups, is_new=is_new)
        self._report_surge(obj, leaders, replicas)
        await self._apply(obj, leaders, key, partition, replicas)
        self._report_progress(obj, leaders, partition, is_new=is_new)
        if sets.is_shared(obj.spec):
            await self.create_service(obj, obj.metadata.name, {sets.NAME: obj.metadata.name}, obj)
        for pod in pods:
            await self._groups.sync(obj, pod, pods, self.children(CONTROLLER_REVISIONS, obj))
        done = self._write_status(obj, leaders, leading, key, draft)
        if done:
            stale = [
                one for one in self.children(CONTROLLER_REVISIONS, obj) if one.revision < revision.revision
            ]
            await self.delete(CONTROLLER_REVISIONS, stale)

    async def _revision(self, obj: Custom, leaders: StatefulSet | None) -> tuple[ControllerRevision, bool]:
        """Return the revision of the present templates, and True if it is new to existing leaders."""
        known = self.children(CONTROLLER_REVISIONS, obj)
        newest = max((one.revision for one in known), default=0)
        body = sets.build_revision(obj, newest + 1)
        current = leaders.metadata.labels.get(sets.REVISION) if leaders is not None else None
        for one in known:
            if current is not None and one.metadata.labels.get(sets.REVISION) != current:
                continue
            if one.data == body["data"]:
                return one, False
        latest = max(known, key=lambda one: one.revision, default=None)
        if latest is not None and latest.data == body["data"]:
            # It was created a moment ago, and the informer does not have the changed leaders yet. Another revision
            # would have the same label, and never be deleted.
            return latest, leaders is not None
        await self.create(CONTROLLER_REVISIONS, body, obj)
        made = await self._client.get(CONTROLLER_REVISIONS, body["metadata"]["name"], obj.metadata.namespace)
        key = made.metadata.labels[sets.REVISION]
        what = "updated LWS" if leaders is not None else "a newly created LeaderWorkerSet"
        self.report(
            obj, "Normal", "CreatingRevision", f"Creating revision with key {key} for {what}", "Create"
        )
        return made, leaders is not None

    def _group(self, obj: Custom, leader: Pod | None, key: str) -> Group:
        if leader is None:
            return Group()
        ready = leader.status.phase == "Running" and is_ready(leader)
        updated = leader.metadata.labels.get(sets.REVISION) == key
        if sets.group_size(obj.spec) > 1:
            workers = self._sets.store.get(leader.key)
            if workers is None:
                return Group()
            ready = ready and _is_set_ready(workers)
            updated = updated and workers.metadata.labels.get(sets.REVISION) == key
        return Group(ready, updated)

    async def _apply(
        self, obj: Custom, leaders: StatefulSet | None, key: str, partition: int, replicas: int
    ) -> None:
        """Apply the leaders' StatefulSet, unless the same was applied before and has not been changed since."""
        body = sets.build_leaders(obj, key, partition, replicas)
        generation = leaders.metadata.generation if leaders is not None else 0
        if leaders is not None and self._applied.get(obj.metadata.uid) == (body, generation):
            return
        parent = msgspec.to_builtins(controller_reference(self.owner, obj))
        meta = {**body["metadata"], "namespace": obj.metadata.namespace, "ownerReferences": [parent]}
        whole = {
            "apiVersion": STATEFUL_SETS.api_version,
            "kind": STATEFUL_SETS.kind,
            "metadata": meta,
            "spec": body["spec"],
        }
        name = obj.metadata.name
        try:
            made = await self._client.patch(
                STATEFUL_SETS,
                name,
                whole,
                obj.metadata.namespace,
                patch_type=PatchType.APPLY,
                field_manager="lws",
                force=True,
            )
        except ApiError as error:
            verb, reason = ("create", "FailedCreate") if leaders is None else ("update", "FailedUpdate")
            text = f"Failed to {verb} leader statefulset {name}: {error}"
            self.report(obj, "Warning", reason, text, verb.capitalize())
            raise
        self._applied[obj.metadata.uid] = (body, made.metadata.generation)

    def _report_surge(self, obj: Custom, leaders: StatefulSet | None, replicas: int) -> None:
        present = (leaders.spec.replicas or 0) if leaders is not None else 0
        if replicas >= present or present <= obj.spec["replicas"]:
            return
        name = obj.metadata.name
        text = f"deleting surge replica {name}-{replicas}"
        if replicas < present - 1:
            text = f"deleting surge replicas from {name}-{replicas} to {name}-{present - 1}"
        self.report(obj, "Normal", "GroupsProgressing", text, "Delete")

    def _report_progress(
        self, obj: Custom, leaders: StatefulSet | None, partition: int, *, is_new: bool
    ) -> None:
        if leaders is None:
            text = f"Created leader statefulset {obj.metadata.name}"
            self.report(obj, "Normal", "GroupsProgressing", text, "Create")
            return
        rolling = leaders.spec.update_strategy.rolling_update
        before = (rolling.partition if rolling is not None else None) or 0
        if is_new or partition == before:
            return
        one = before - 1 == partition
        text = (
            f"Updating replica {partition}"
            if one
            else f"Updating replicas {partition} to {before - 1} (inclusive)"
        )
        self.report(obj, "Normal", "GroupsUpdating", text, "Update")

    async def create_service(self, obj: Custom, name: str, selector: dict[str, str], owner: Any) -> None:
        """Create a headless Service unless it exists. ``owner`` is the set, or a leader."""
        if self._services.get(f"{obj.metadata.namespace}/{name}") is not None:
            return
        try:
            await self.create(
                SERVICES,
                sets.build_service(obj, name, selector),
                owner,
                owner=PODS if owner is not obj else None,
            )
        except ApiError as error:
            text = f"Failed to create headless service for error: {error}"
            self.report(obj, "Warning", "FailedCreate", text, "Create")
            raise

    def _write_status(
        self,
        obj: Custom,
        leaders: StatefulSet | None,
        leading: dict[int, Pod],
        key: str,
        draft: Draft,
    ) -> bool:
        """Write the numbers of groups, and the condition. Return True if all groups are updated and ready."""
        wanted, partition = obj.spec["replicas"], sets.rolling_update(obj.spec)["partition"]
        groups = {
            index: self._group(obj, pod, key)
            for index, pod in leading.items()
            if sets.group_size(obj.spec) == 1 or self._sets.store.get(pod.key) is not None
        }
        ready = sum(group.ready for group in groups.values())
        up = {index: group for index, group in groups.items() if index < wanted}
        counted = {index: group for index, group in up.items() if index >= partition}
        current, updated = len(counted), sum(group.updated for group in counted.values())
        done = sum(group.ready and group.updated for group in counted.values())
        status = draft.status
        status["replicas"] = leaders.status.replicas if leaders is not None else 0
        status["observedGeneration"] = obj.metadata.generation
        name = obj.metadata.name
        status.setdefault("hpaPodSelector", f"{sets.NAME}={name},{sets.WORKER_INDEX}=0")
        status["readyReplicas"] = ready
        status["updatedReplicas"] = sum(group.updated for group in groups.values())
        if updated < current:
            names = ["UpdateInProgress", "Progressing"]
        elif sum(group.ready for group in up.values()) == wanted and done == current:
            names = ["Available"]
        else:
            names = ["Progressing"]
        if functools.reduce(lambda changed, one: _set_condition(draft, one) or changed, names, False):
            reason, message = _CONDITIONS[names[0]]
            draft.event("Normal", reason, f"{message}, with {ready} groups ready of total {wanted} groups")
        for condition in status["conditions"]:
            condition["observedGeneration"] = obj.metadata.generation
        return bool(partition == 0 and done == wanted)


def _set_condition(draft: Draft, name: str) -> bool:
    changed = False
    others = _EXCLUSIVE.get(name, ("Available",))
    for other in others:
        if draft.has(other):
            reason, message = _CONDITIONS[other]
            changed |= draft.set_condition(other, "False", reason, message)
    reason, message = _CONDITIONS[name]
    if draft.has(name):
        return changed
    return draft.set_condition(name, "True", reason, message) or changed


def _is_set_ready(workers: StatefulSet) -> bool:
    status = workers.status
    wanted = 1 if workers.spec.replicas is None else workers.spec.replicas
    return wanted == status.available_replicas and status.current_revision == status.update_revision


def _set_of(pod: Pod) -> list[str]:
    name = pod.metadata.labels.get(sets.NAME)
    return [f"{pod.metadata.namespace}/{name}"] if name else []
