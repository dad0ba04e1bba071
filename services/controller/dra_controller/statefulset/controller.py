"""The StatefulSet controller.

Mirrors pkg/controller/statefulset/stateful_set.go and stateful_set_control.go.
"""

import httpx
from dra_shared.api.apps import StatefulSet, StatefulSetStatus
from dra_shared.api.core import PersistentVolumeClaim
from dra_shared.api.meta import Object, OwnerReference
from dra_shared.api.pod import Pod
from dra_shared.api.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from dra_shared.client.errors import AlreadyExists, ApiError, NotFound
from dra_shared.client.events import reference
from dra_shared.client.workqueue import Retry
from msgspec.structs import replace

from dra_controller.framework import Context
from dra_controller.hashing import revision_hash
from dra_controller.pods import controller_reference, is_ready, is_terminal, seconds_until_available
from dra_controller.revisions import HASH, History
from dra_controller.statefulset.identity import new_pod, ordinal, volume_claims
from dra_controller.workload import WorkloadController, index_by_owner


def with_owner(
    claim: PersistentVolumeClaim, stateful_set: StatefulSet, pod: Pod, *, surplus: bool
) -> PersistentVolumeClaim:
    """Return the volume claim with the owner that the retention policy requires.

    ``surplus`` if the StatefulSet does not need its pod.
    """
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    references = claim.metadata.owner_references
    others = tuple(entry for entry in references if not _is_ours(entry, stateful_set, pod))
    if any(entry.controller for entry in others):
        return claim
    wanted: tuple[OwnerReference, ...] = ()
    if policy is not None and surplus and policy.when_scaled == "Delete":
        wanted = (controller_reference(PODS, pod),)
    elif policy is not None and policy.when_deleted == "Delete":
        wanted = (controller_reference(STATEFUL_SETS, stateful_set),)
    if set(wanted) == set(references) - set(others):
        return claim
    return replace(claim, metadata=replace(claim.metadata, owner_references=(*others, *wanted)))


def goes_with(claim: PersistentVolumeClaim, pod_name: str) -> bool:
    """Return True if the volume claim has an owner reference to a pod of that name."""
    return any(
        entry.kind == PODS.kind and entry.name == pod_name for entry in claim.metadata.owner_references
    )


def _is_ours(entry: OwnerReference, stateful_set: StatefulSet, pod: Pod) -> bool:
    return entry.uid == stateful_set.metadata.uid or (
        entry.kind == PODS.kind and entry.name == pod.metadata.name
    )


class StatefulSetController(WorkloadController):
    """The statefulset-controller of kube-controller-manager."""

    name = "statefulset-controller"
    queue_name = "statefulset"
    owner = STATEFUL_SETS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        revisions = self.watch(CONTROLLER_REVISIONS)
        index_by_owner(revisions)
        self._claims = self.watch(PERSISTENT_VOLUME_CLAIMS).store
        self._history = History(
            context.client,
            STATEFUL_SETS,
            revisions.store,
            label="controller.kubernetes.io/hash",
            digest=lambda _, data, collisions: revision_hash(data, collisions or 0),
        )

    def deletion_text(self, owner: Object, pod: Pod) -> str:
        return f"Delete Pod {pod.metadata.name} in StatefulSet {owner.metadata.name} successful"

    async def reconcile(self, key: str) -> None:
        stateful_set: StatefulSet | None = self.owners.store.get(key)
        if stateful_set is None:
            return
        spec = stateful_set.spec
        # Check the expectations before the pods are read: the read then includes all expected pods.
        settled = self.is_settled(stateful_set)
        owned = await self.pod_ownership.claim(stateful_set, spec.selector, self.pods.store)
        if stateful_set.metadata.deletion_timestamp is not None:
            return
        revision = await self._history.current(
            stateful_set, spec.template, stateful_set.status.collision_count
        )
        update = revision.metadata.name
        current = stateful_set.status.current_revision or update
        pods = {number: pod for pod in owned if (number := ordinal(stateful_set, pod)) is not None}
        if settled:
            await self._act(stateful_set, pods, update, current)
        status = self._status(stateful_set, pods, current, update)
        if status != stateful_set.status:
            await self._client.update(
                STATEFUL_SETS, replace(stateful_set, status=status), subresource="status"
            )
        used = [pod.metadata.labels.get(HASH, "") for pod in owned]
        used += [status.current_revision, status.update_revision]
        await self._history.truncate(stateful_set, used, spec.revision_history_limit)

    async def _act(self, stateful_set: StatefulSet, pods: dict[int, Pod], update: str, current: str) -> None:
        """Do the next step.

        With OrderedReady, all later pods wait for the first pod that is not in its desired state.
        """
        parallel = stateful_set.spec.pod_management_policy == "Parallel"
        numbers = _numbers(stateful_set)
        surplus = sorted((number for number in pods if number not in numbers), reverse=True)
        for number in surplus:
            await self._retain(stateful_set, number, pods[number], surplus=True)
        for number in numbers:
            pod = pods.get(number)
            if pod is not None and is_terminal(pod) and pod.metadata.deletion_timestamp is None:
                await self.delete_pods(stateful_set, [pod])
                return
            if pod is None:
                older = _keeps_older(stateful_set, number)
                await self._create(stateful_set, number, current if older else update)
                if not parallel:
                    return
                continue
            if pod.status.phase == "Pending":
                await self._create_claims(stateful_set, number, pod)
            if not parallel and (
                pod.metadata.deletion_timestamp is not None or self._wait(stateful_set, pod)
            ):
                return
            if await self._retain(stateful_set, number, pod, surplus=False):
                text = (
                    f"Update Pod {pod.metadata.name} in StatefulSet {stateful_set.metadata.name} successful"
                )
                self.recorder.event(
                    reference(STATEFUL_SETS, stateful_set), "Normal", "SuccessfulUpdate", text
                )
        for number in surplus:
            pod = pods[number]
            if pod.metadata.deletion_timestamp is None:
                if not parallel and any(self._wait(stateful_set, pods[n]) for n in numbers if n in pods):
                    return
                await self.delete_pods(stateful_set, [pod])
            if not parallel:
                return
        if not surplus:
            await self._update(stateful_set, pods, update)

    async def _update(self, stateful_set: StatefulSet, pods: dict[int, Pod], update: str) -> None:
        """Replace pods of older templates from the highest number down to the partition."""
        strategy = stateful_set.spec.update_strategy
        if strategy.type == "OnDelete":
            return
        rolling = strategy.rolling_update
        partition = (rolling.partition if rolling is not None else None) or 0
        most = 1
        if rolling is not None and isinstance(rolling.max_unavailable, int):
            most = max(1, rolling.max_unavailable)
        unavailable = sum(self._wait(stateful_set, pod) for pod in pods.values())
        # The partition counts from the first pod, whatever its number is.
        for number in reversed(_numbers(stateful_set)[partition:]):
            pod = pods.get(number)
            if pod is None:
                return
            if pod.metadata.labels.get(HASH) != update and pod.metadata.deletion_timestamp is None:
                if unavailable >= most and not self._wait(stateful_set, pod):
                    return
                await self.delete_pods(stateful_set, [pod])
                unavailable += 1
            if unavailable >= most:
                return

    def _wait(self, stateful_set: StatefulSet, pod: Pod) -> bool:
        """Return True if the pod is not available yet."""
        if pod.metadata.deletion_timestamp is not None:
            return True
        left = seconds_until_available(pod, stateful_set.spec.min_ready_seconds or 0, self._clock.now())
        if left:
            self.queue.add_after(stateful_set.key, left)
        return left != 0

    async def _create(self, stateful_set: StatefulSet, number: int, revision: str) -> None:
        pod = new_pod(self._at(stateful_set, revision), number, revision)
        involved = reference(STATEFUL_SETS, stateful_set)
        name = pod.metadata.name
        known = [self._claims.get(claim.key) for claim in volume_claims(stateful_set, number)]
        if any(claim is not None and goes_with(claim, name) for claim in known):
            raise Retry(f"volume claims of the former pod {pod.key} are still there")
        await self._create_claims(stateful_set, number, pod)
        try:
            made = await self._client.create(PODS, self.admit(stateful_set, pod))
        except AlreadyExists as error:
            live = await self._client.get(PODS, name, stateful_set.metadata.namespace)
            if any(owner.uid == stateful_set.metadata.uid for owner in live.metadata.owner_references):
                return
            raise Retry(f"another pod has the name {live.key}: {error}") from error
        except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
            # As upstream, record the event even if the request got no response. If the pod was created after all,
            # the next attempt finds it and records no event.
            text = f"Create Pod {name} in StatefulSet {stateful_set.metadata.name} failed error: {error}"
            self.recorder.event(involved, "Warning", "FailedCreate", text)
            raise
        self.expectations.expect_creation(stateful_set.metadata.uid, made)
        text = f"Create Pod {name} in StatefulSet {stateful_set.metadata.name} successful"
        self.recorder.event(involved, "Normal", "SuccessfulCreate", text)

    async def _create_claims(self, stateful_set: StatefulSet, number: int, pod: Pod) -> None:
        involved = reference(STATEFUL_SETS, stateful_set)
        where = f"Pod {pod.metadata.name} in StatefulSet {stateful_set.metadata.name}"
        for claim in volume_claims(stateful_set, number):
            if self._claims.get(claim.key) is not None:
                continue
            what = claim.metadata.name
            try:
                await self._client.create(
                    PERSISTENT_VOLUME_CLAIMS, with_owner(claim, stateful_set, pod, surplus=False)
                )
            except AlreadyExists:
                continue
            except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
                text = f"Create Claim {what} for {where} failed error: {error}"
                self.recorder.event(involved, "Warning", "FailedCreate", text)
                raise
            text = f"Create Claim {what} {where} success"
            self.recorder.event(involved, "Normal", "SuccessfulCreate", text)

    async def _retain(self, stateful_set: StatefulSet, number: int, pod: Pod, *, surplus: bool) -> bool:
        """Set the owners of the pod's volume claims by the retention policy. Return True if any had to change."""
        changed = False
        for template in volume_claims(stateful_set, number):
            claim = await self._claim(template)
            if claim is None:
                continue
            wanted = with_owner(claim, stateful_set, pod, surplus=surplus)
            if wanted != claim:
                await self._client.update(PERSISTENT_VOLUME_CLAIMS, wanted)
                changed = True
        return changed

    async def _claim(self, template: PersistentVolumeClaim) -> PersistentVolumeClaim | None:
        """Return the claim that was created from the template. The informer may not have a new one yet."""
        known = self._claims.get(template.key)
        if known is not None:
            return known
        try:
            return await self._client.get(
                PERSISTENT_VOLUME_CLAIMS, template.metadata.name, template.metadata.namespace
            )
        except NotFound:
            return None

    def _at(self, stateful_set: StatefulSet, name: str) -> StatefulSet:
        """Return the StatefulSet with the template of the revision of that name."""
        for revision in self._history.of(stateful_set):
            if revision.metadata.name == name:
                restored = self._history.template(revision)
                return replace(stateful_set, spec=replace(stateful_set.spec, template=restored))
        return stateful_set

    def _status(
        self, stateful_set: StatefulSet, pods: dict[int, Pod], current: str, update: str
    ) -> StatefulSetStatus:
        now = self._clock.now()
        least = stateful_set.spec.min_ready_seconds or 0
        alive = [pod for pod in pods.values() if not is_terminal(pod)]

        def of(revision: str) -> int:
            return sum(
                pod.metadata.labels.get(HASH) == revision and pod.metadata.deletion_timestamp is None
                for pod in alive
            )

        wanted = len(_numbers(stateful_set))
        ready = sum(is_ready(pod) for pod in alive)
        updated = of(update)
        if updated == wanted == len(alive) == ready and current != update:
            # The roll-out is complete, so the new revision is now the current one.
            current = update
        return StatefulSetStatus(
            replicas=len(alive),
            ready_replicas=ready or None,
            available_replicas=sum(seconds_until_available(pod, least, now) == 0 for pod in alive),
            current_replicas=of(current) or None,
            updated_replicas=updated or None,
            current_revision=current,
            update_revision=update,
            observed_generation=stateful_set.metadata.generation or None,
            collision_count=stateful_set.status.collision_count or 0,
            conditions=stateful_set.status.conditions,
        )


def _keeps_older(stateful_set: StatefulSet, number: int) -> bool:
    """Return True if a pod that is created again keeps its older template."""
    strategy, first = stateful_set.spec.update_strategy, _numbers(stateful_set).start
    if strategy.rolling_update is not None:
        return number < first + (strategy.rolling_update.partition or 0)
    rolling = strategy.type != "OnDelete"
    return rolling and number < first + (stateful_set.status.current_replicas or 0)


def _numbers(stateful_set: StatefulSet) -> range:
    replicas = 1 if stateful_set.spec.replicas is None else stateful_set.spec.replicas
    start = stateful_set.spec.ordinals.start if stateful_set.spec.ordinals is not None else 0
    return range(start, start + replicas)
