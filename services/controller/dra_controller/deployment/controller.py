"""The Deployment controller.

Mirrors pkg/controller/deployment/deployment_controller.go, sync.go and recreate.go.
"""

import contextlib
from collections.abc import Sequence

from dra_shared.api.apps import Deployment, DeploymentStatus, ReplicaSet
from dra_shared.api.pod import Pod
from dra_shared.api.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from dra_shared.claims import controller_of
from dra_shared.client.errors import AlreadyExists, ApiError, NotFound
from dra_shared.client.events import reference
from dra_shared.client.workqueue import Retry
from dra_shared.selectors import label_selector
from msgspec.structs import replace

from dra_controller.deployment import conditions, revisions, rolling
from dra_controller.deployment.rolling import replicas_of
from dra_controller.framework import Context, QueueController
from dra_controller.ownership import Ownership
from dra_controller.pods import OWNER_INDEX, is_terminal
from dra_controller.workload import index_by_owner


class DeploymentController(QueueController):
    """The deployment-controller of kube-controller-manager."""

    name = "deployment-controller"
    queue_name = "deployment"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._deployments = self.watch(DEPLOYMENTS)
        self._replica_sets = self.watch(REPLICA_SETS)
        self._pods = self.watch(PODS)
        self._recorder = context.recorder(self.name)
        self._ownership = Ownership(context.client, DEPLOYMENTS, REPLICA_SETS)
        index_by_owner(self._replica_sets)
        index_by_owner(self._pods)
        self._deployments.add_handler(self._enqueue, lambda _, new: self._enqueue(new), self._enqueue)
        self._replica_sets.add_handler(
            self._replica_set_changed, self._replica_set_updated, self._replica_set_changed
        )
        self._pods.add_handler(on_delete=self._pod_deleted)

    def _enqueue(self, deployment: Deployment) -> None:
        self.queue.add(deployment.key)

    def _replica_set_updated(self, old: ReplicaSet, new: ReplicaSet) -> None:
        before, after = controller_of(old), controller_of(new)
        if before is not None and (after is None or after.uid != before.uid):
            self._replica_set_changed(old)
        self._replica_set_changed(new)

    def _replica_set_changed(self, replica_set: ReplicaSet) -> None:
        owner = controller_of(replica_set)
        if owner is not None:
            if owner.kind == "Deployment":
                self.queue.add(f"{replica_set.metadata.namespace}/{owner.name}")
            return
        for deployment in self._deployments.store.list():
            same = deployment.metadata.namespace == replica_set.metadata.namespace
            if same and label_selector(deployment.spec.selector).matches(replica_set.metadata.labels):
                self._enqueue(deployment)

    def _pod_deleted(self, pod: Pod) -> None:
        # The strategy Recreate continues when the last old pod is gone.
        owner = controller_of(pod)
        if owner is None or owner.kind != "ReplicaSet":
            return
        replica_set = self._replica_sets.store.get(f"{pod.metadata.namespace}/{owner.name}")
        if replica_set is not None:
            self._replica_set_changed(replica_set)

    async def reconcile(self, key: str) -> None:
        deployment = self._deployments.store.get(key)
        if deployment is None:
            return
        selector = deployment.spec.selector
        if not selector.match_labels and not selector.match_expressions:
            involved = reference(DEPLOYMENTS, deployment)
            self._recorder.event(
                involved, "Warning", "SelectingAll", "This deployment is selecting all pods."
            )
            return
        owned = await self._ownership.claim(deployment, selector, self._replica_sets.store)
        if deployment.metadata.deletion_timestamp is not None:
            await self._write_status(deployment, owned, revisions.newest_of(deployment, owned))
            return
        deployment = await self._note_pause(deployment)
        if deployment.spec.paused or self._is_scaling(deployment, owned):
            deployment, newest, old = await self._revise(deployment, owned, create=False)
            everything = await self._scale_all(deployment, newest, old)
            await self._write_status(deployment, everything, _same(everything, newest))
        elif deployment.spec.strategy.type == "Recreate":
            await self._recreate(deployment, owned)
        else:
            await self._roll(deployment, owned)

    async def _note_pause(self, deployment: Deployment) -> Deployment:
        if not conditions.has_deadline(deployment):
            return deployment
        current = conditions.find(deployment.status, conditions.PROGRESSING)
        if current is not None and current.reason == conditions.TIMED_OUT:
            return deployment
        was_paused = current is not None and current.reason == "DeploymentPaused"
        if bool(deployment.spec.paused) == was_paused:
            return deployment
        if deployment.spec.paused:
            reason, text = "DeploymentPaused", "Deployment is paused"
        else:
            reason, text = "DeploymentResumed", "Deployment is resumed"
        status = conditions.with_condition(
            deployment.status, self._clock.now(), conditions.PROGRESSING, "Unknown", reason, text
        )
        return await self._put_status(deployment, status)

    def _is_scaling(self, deployment: Deployment, owned: Sequence[ReplicaSet]) -> bool:
        for replica_set in owned:
            desired = replica_set.metadata.annotations.get(rolling.DESIRED, "")
            if replicas_of(replica_set) and desired.isdigit() and int(desired) != replicas_of(deployment):
                return True
        return False

    async def _revise(
        self, deployment: Deployment, owned: Sequence[ReplicaSet], *, create: bool
    ) -> tuple[Deployment, ReplicaSet | None, list[ReplicaSet]]:
        """Return the newest ReplicaSet, created if necessary, and all others. Their revision numbers are updated."""
        newest = revisions.newest_of(deployment, owned)
        old = [rs for rs in owned if newest is None or rs.metadata.uid != newest.metadata.uid]
        number = max((revisions.revision(rs) for rs in old), default=0) + 1
        if newest is not None:
            wanted = revisions.annotate(deployment, newest, number)
            wanted = replace(
                wanted, spec=replace(wanted.spec, min_ready_seconds=deployment.spec.min_ready_seconds)
            )
            if wanted != newest:
                newest = await self._change(
                    newest, wanted.metadata.annotations, {"minReadySeconds": wanted.spec.min_ready_seconds}
                )
            deployment = await self._number(deployment, revisions.revision(newest))
            if conditions.has_deadline(deployment):
                deployment = await self._progress(
                    deployment,
                    "FoundNewReplicaSet",
                    f'Found new replica set "{newest.metadata.name}"',
                    once=True,
                )
        elif create:
            deployment, newest = await self._create(deployment, owned, number)
        return deployment, newest, old

    async def _create(
        self, deployment: Deployment, owned: Sequence[ReplicaSet], number: int
    ) -> tuple[Deployment, ReplicaSet]:
        wanted = revisions.new_replica_set(deployment, number, 0)
        size = rolling.new_replicas(deployment, [*owned, wanted], wanted)
        wanted = replace(wanted, spec=replace(wanted.spec, replicas=size))
        try:
            newest = await self._client.create(REPLICA_SETS, wanted)
        except AlreadyExists as error:
            newest = await self._after_collision(deployment, wanted, error)
        except ApiError as error:
            text = f'Failed to create new replica set "{wanted.metadata.name}": {error}'
            if conditions.has_deadline(deployment):
                status = conditions.with_condition(
                    deployment.status,
                    self._clock.now(),
                    conditions.PROGRESSING,
                    "False",
                    "ReplicaSetCreateError",
                    text,
                )
                await self._put_status(deployment, status)
            involved = reference(DEPLOYMENTS, deployment)
            self._recorder.event(involved, "Warning", "ReplicaSetCreateError", text)
            raise
        else:
            if size:
                self._report_scaling(deployment, newest, 0, size)
        deployment = await self._number(deployment, number)
        if conditions.has_deadline(deployment):
            text = f'Created new replica set "{newest.metadata.name}"'
            deployment = await self._progress(deployment, "NewReplicaSetCreated", text, once=False)
        return deployment, newest

    async def _after_collision(
        self, deployment: Deployment, wanted: ReplicaSet, error: AlreadyExists
    ) -> ReplicaSet:
        """Handle a name collision: the other ReplicaSet belongs to this Deployment and was created a moment ago,
        or it has another template.
        """
        live = await self._client.get(REPLICA_SETS, wanted.metadata.name, wanted.metadata.namespace)
        owner = controller_of(live)
        if (
            owner is not None
            and owner.uid == deployment.metadata.uid
            and revisions.newest_of(deployment, [live]) is not None
        ):
            return live
        # The collision counts only if the Deployment has not changed on the server.
        collisions = (deployment.status.collision_count or 0) + 1
        await self._put_status(deployment, replace(deployment.status, collision_count=collisions))
        raise Retry(f"hash collision: {error}") from error

    async def _number(self, deployment: Deployment, number: int) -> Deployment:
        if deployment.metadata.annotations.get(revisions.REVISION) == str(number):
            return deployment
        annotations = deployment.metadata.annotations | {revisions.REVISION: str(number)}
        numbered = replace(deployment, metadata=replace(deployment.metadata, annotations=annotations))
        # Annotations can be written with the status. Upstream does so, as its role may update but not
        # patch.
        return await self._client.update(DEPLOYMENTS, numbered, subresource="status")

    async def _progress(self, deployment: Deployment, reason: str, text: str, *, once: bool) -> Deployment:
        if once and conditions.find(deployment.status, conditions.PROGRESSING) is not None:
            return deployment
        status = conditions.with_condition(
            deployment.status, self._clock.now(), conditions.PROGRESSING, "True", reason, text
        )
        return await self._put_status(deployment, status)

    async def _roll(self, deployment: Deployment, owned: Sequence[ReplicaSet]) -> None:
        deployment, newest, old = await self._revise(deployment, owned, create=True)
        assert newest is not None
        everything = [*old, newest]
        size = rolling.new_replicas(deployment, everything, newest)
        if replicas_of(newest) > replicas_of(deployment):
            size = replicas_of(deployment)
        if size != replicas_of(newest):
            newest = await self._scale(deployment, newest, size)
        else:
            sizes = rolling.old_replicas(deployment, everything, newest, old)
            old = [await self._scale(deployment, rs, sizes[rs.key]) for rs in old]
        await self._finish(deployment, newest, old)

    async def _recreate(self, deployment: Deployment, owned: Sequence[ReplicaSet]) -> None:
        deployment, newest, old = await self._revise(deployment, owned, create=False)
        if any(replicas_of(rs) for rs in old):
            old = [await self._scale(deployment, rs, 0) for rs in old]
            await self._write_status(deployment, [*old, *([newest] if newest else [])], newest)
            return
        if any(self._has_pods(rs) for rs in old):
            await self._write_status(deployment, [*old, *([newest] if newest else [])], newest)
            return
        deployment, newest, old = await self._revise(deployment, owned, create=True)
        assert newest is not None
        newest = await self._scale(deployment, newest, replicas_of(deployment))
        await self._finish(deployment, newest, old)

    def _has_pods(self, replica_set: ReplicaSet) -> bool:
        pods = self._pods.store.by_index(OWNER_INDEX, replica_set.metadata.uid)
        return any(not is_terminal(pod) for pod in pods)

    async def _finish(self, deployment: Deployment, newest: ReplicaSet, old: list[ReplicaSet]) -> None:
        status = conditions.count_replicas(deployment, [*old, newest], newest)
        if conditions.is_complete(deployment, status):
            old = await self._clean_up(deployment, old)
        await self._write_status(deployment, [*old, newest], newest)

    async def _clean_up(self, deployment: Deployment, old: list[ReplicaSet]) -> list[ReplicaSet]:
        """Delete the oldest ReplicaSets without pods, beyond the revision history limit."""
        limit = deployment.spec.revision_history_limit
        if limit is None or limit == 2**31 - 1:
            return old
        alive = [rs for rs in old if rs.metadata.deletion_timestamp is None]
        excess = len(alive) - limit
        gone = set()
        for replica_set in sorted(alive, key=revisions.revision)[: max(0, excess)]:
            status = replica_set.status
            observed = (status.observed_generation or 0) >= replica_set.metadata.generation
            if status.replicas or replicas_of(replica_set) or not observed:
                continue
            meta = replica_set.metadata
            with contextlib.suppress(NotFound):
                await self._client.delete(REPLICA_SETS, meta.name, meta.namespace, propagation="Background")
            gone.add(meta.uid)
        return [rs for rs in old if rs.metadata.uid not in gone]

    async def _scale_all(
        self, deployment: Deployment, newest: ReplicaSet | None, old: list[ReplicaSet]
    ) -> list[ReplicaSet]:
        """Scale each ReplicaSet in proportion after the Deployment was scaled."""
        everything = [*old, *([newest] if newest is not None else [])]
        active = [rs for rs in everything if replicas_of(rs)]
        if len(active) <= 1:
            only = active[0] if active else newest
            if only is None and old:
                only = max(old, key=revisions.revision)
            sizes = {only.key: replicas_of(deployment)} if only is not None else {}
        elif newest is not None and _is_saturated(deployment, newest):
            sizes = {rs.key: 0 for rs in old}
        elif deployment.spec.strategy.type == "RollingUpdate":
            sizes = rolling.scale_proportionally(deployment, active)
        else:
            sizes = {}
        return [await self._scale(deployment, rs, sizes.get(rs.key, replicas_of(rs))) for rs in everything]

    async def _scale(self, deployment: Deployment, replica_set: ReplicaSet, size: int) -> ReplicaSet:
        before = replicas_of(replica_set)
        annotations = replica_set.metadata.annotations | revisions.size_annotations(deployment)
        if size == before and (not before or annotations == replica_set.metadata.annotations):
            return replica_set
        scaled = await self._change(replica_set, annotations, {"replicas": size})
        if size != before:
            self._report_scaling(deployment, replica_set, before, size)
        return scaled

    async def _change(
        self, replica_set: ReplicaSet, annotations: dict[str, str], spec: dict[str, int | None]
    ) -> ReplicaSet:
        """Change a ReplicaSet, if it has not changed on the server. A patch leaves unknown fields unchanged."""
        meta = replica_set.metadata
        body = {
            "metadata": {"resourceVersion": meta.resource_version, "annotations": annotations},
            "spec": spec,
        }
        return await self._client.patch(REPLICA_SETS, meta.name, body, meta.namespace)

    def _report_scaling(
        self, deployment: Deployment, replica_set: ReplicaSet, before: int, after: int
    ) -> None:
        direction = "up" if after > before else "down"
        text = f"Scaled {direction} replica set {replica_set.metadata.name} from {before} to {after}"
        self._recorder.event(reference(DEPLOYMENTS, deployment), "Normal", "ScalingReplicaSet", text)

    async def _write_status(
        self, deployment: Deployment, everything: Sequence[ReplicaSet], newest: ReplicaSet | None
    ) -> None:
        now = self._clock.now()
        status = conditions.with_availability(
            deployment, conditions.count_replicas(deployment, everything, newest), now
        )
        if not deployment.spec.paused:
            status = conditions.with_progress(deployment, status, everything, newest, now)
        await self._put_status(deployment, status)
        left = conditions.deadline_left(deployment, status, now)
        if left is not None and left >= 0:
            self.queue.add_after(deployment.key, left + 1)

    async def _put_status(self, deployment: Deployment, status: DeploymentStatus) -> Deployment:
        if status == deployment.status:
            return deployment
        return await self._client.update(
            DEPLOYMENTS, replace(deployment, status=status), subresource="status"
        )


def _same(everything: Sequence[ReplicaSet], wanted: ReplicaSet | None) -> ReplicaSet | None:
    return next(
        (rs for rs in everything if wanted is not None and rs.metadata.uid == wanted.metadata.uid), None
    )


def _is_saturated(deployment: Deployment, newest: ReplicaSet) -> bool:
    wanted = replicas_of(deployment)
    desired = newest.metadata.annotations.get(rolling.DESIRED, "")
    return (
        replicas_of(newest) == wanted
        and desired.isdigit()
        and int(desired) == wanted
        and (newest.status.available_replicas or 0) == wanted
    )
