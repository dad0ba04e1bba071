"""The DaemonSet controller.

Mirrors pkg/controller/daemon/daemon_controller.go and update.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dra_shared.api.apps import DaemonSet, DaemonSetStatus
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resources import CONTROLLER_REVISIONS, DAEMON_SETS, NODES
from dra_shared.backoff import Backoff
from dra_shared.client.events import reference
from msgspec.structs import replace

from dra_controller.daemonset.placement import node_of, should_run, tie_to_node, with_tolerations
from dra_controller.deployment.rolling import scale_value
from dra_controller.framework import Context
from dra_controller.hashing import template_hash
from dra_controller.pods import (
    controller_reference,
    is_active,
    is_ready,
    pod_from_template,
    seconds_until_available,
)
from dra_controller.revisions import HASH, History
from dra_controller.workload import WorkloadController, index_by_owner

_ENDED = frozenset({"Failed", "Succeeded"})
# Backoff before a failed pod is replaced, in case the kubelet rejects it each time (failedPodsBackoff).
_FIRST_DELAY, _LONGEST_DELAY = 1.0, 900.0


@dataclass
class _Plan:
    """The pods by node, and the pods to create and delete."""

    pods: dict[str, list[Pod]] = field(default_factory=dict)
    wanted: set[str] = field(default_factory=set)
    create: list[str] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)
    failed: list[Pod] = field(default_factory=list)
    succeeded: list[Pod] = field(default_factory=list)
    misplaced: int = 0


class DaemonSetController(WorkloadController):
    """The daemonset-controller of kube-controller-manager."""

    name = "daemonset-controller"
    queue_name = "daemonset"
    owner = DAEMON_SETS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._nodes = self.watch(NODES)
        revisions = self.watch(CONTROLLER_REVISIONS)
        index_by_owner(revisions)
        self._history = History(
            context.client,
            DAEMON_SETS,
            revisions.store,
            label=HASH,
            digest=lambda template, _, collisions: template_hash(template, collisions or None),
        )
        self._backoff = Backoff(_FIRST_DELAY, _LONGEST_DELAY)
        self._nodes.add_handler(self._node_changed, self._node_updated, self._node_changed)

    def _node_changed(self, node: Node) -> None:
        for daemon_set in self.owners.store.list():
            self.enqueue(daemon_set)

    def _node_updated(self, old: Node, new: Node) -> None:
        if (old.metadata.labels, old.spec) != (new.metadata.labels, new.spec):
            self._node_changed(new)

    async def reconcile(self, key: str) -> None:
        daemon_set: DaemonSet | None = self.owners.store.get(key)
        if daemon_set is None:
            return
        spec = daemon_set.spec
        if not spec.selector.match_labels and not spec.selector.match_expressions:
            text = "This daemon set is selecting all pods. A non-empty selector is required."
            self.recorder.event(reference(DAEMON_SETS, daemon_set), "Warning", "SelectingAll", text)
            return
        if daemon_set.metadata.deletion_timestamp is not None:
            return
        revision = await self._history.current(daemon_set, spec.template, daemon_set.status.collision_count)
        digest = revision.metadata.labels[HASH]
        # Check the expectations before the pods are read: the read then includes all expected pods.
        settled = self.is_settled(daemon_set)
        owned = await self.pod_ownership.claim(daemon_set, spec.selector, self.pods.store)
        plan = self._plan(daemon_set, owned)
        if settled:
            await self._act(daemon_set, plan, digest)
        used = {pod.metadata.labels.get(HASH, "") for pod in owned} | {digest}
        prefix = daemon_set.metadata.name
        await self._history.truncate(daemon_set, [f"{prefix}-{h}" for h in used], spec.revision_history_limit)
        await self._write_status(daemon_set, plan, digest)

    def _plan(self, daemon_set: DaemonSet, owned: Sequence[Pod]) -> _Plan:
        plan = _Plan()
        for pod in owned:
            plan.pods.setdefault(node_of(pod), []).append(pod)
        spec = daemon_set.spec.template.spec
        names = set()
        for node in self._nodes.store.list():
            name = node.metadata.name
            names.add(name)
            run, stay = should_run(spec, node)
            here = plan.pods.get(name, [])
            if run:
                plan.wanted.add(name)
            elif any(is_active(pod) for pod in here):
                plan.misplaced += 1
            if not stay:
                plan.delete += [pod for pod in here if pod.metadata.deletion_timestamp is None]
                continue
            alive = [pod for pod in here if pod.metadata.deletion_timestamp is None]
            plan.failed += [pod for pod in alive if pod.status.phase == "Failed"]
            plan.succeeded += [pod for pod in alive if pod.status.phase == "Succeeded"]
            running = [pod for pod in alive if pod.status.phase not in _ENDED]
            if run and not here:
                plan.create.append(name)
            # One pod for each node: the oldest stays, unless a newer one takes its place in an update with
            # surge.
            running.sort(
                key=lambda pod: (not pod.spec.node_name, pod.metadata.creation_timestamp or "", pod.key)
            )
            same = {pod.metadata.labels.get(HASH) for pod in running}
            if len(running) > 1 and not (_surge(daemon_set) and len(same) > 1):
                plan.delete += running[1:]
        # Delete only pods that are not on a node yet. The pod garbage collector deletes pods on missing nodes
        # after it has asked the API server.
        plan.delete += [
            pod
            for name, pods in plan.pods.items()
            if name not in names
            for pod in pods
            if not pod.spec.node_name and pod.metadata.deletion_timestamp is None
        ]
        return plan

    async def _act(self, daemon_set: DaemonSet, plan: _Plan, digest: str) -> None:
        about = reference(DAEMON_SETS, daemon_set)
        failed = [pod for pod in plan.failed if self._may_go(daemon_set, node_of(pod))]
        for pod in failed:
            text = f"Found failed daemon pod {pod.key} on node {pod.spec.node_name}, will try to kill it"
            self.recorder.event(about, "Warning", "FailedDaemonPod", text)
        for pod in plan.succeeded:
            text = f"Found succeeded daemon pod {pod.key} on node {pod.spec.node_name}, will try to delete it"
            self.recorder.event(about, "Normal", "SucceededDaemonPod", text)
        ended = [*failed, *plan.succeeded]
        await self.delete_pods(daemon_set, [*plan.delete, *ended])
        await self.create_pods(daemon_set, [self._pod(daemon_set, name, digest) for name in plan.create])
        if not plan.create and not plan.delete and not ended:
            await self._update(daemon_set, plan, digest)

    def _may_go(self, daemon_set: DaemonSet, node: str) -> bool:
        """Return True if a pod that failed on the node may be deleted now. If not, queue the DaemonSet for later."""
        now = self._clock.monotonic()
        key = f"{daemon_set.metadata.uid}/{daemon_set.status.observed_generation or 0}/{node}"
        self._backoff.collect(now)
        if self._backoff.remaining_since_update(key, now):
            self.queue.add_after(daemon_set.key, self._backoff.delay(key))
            return False
        self._backoff.next(key, now, now)
        return True

    def _pod(self, daemon_set: DaemonSet, node: str, digest: str) -> Pod:
        template = daemon_set.spec.template
        pod = pod_from_template(template, controller_reference(DAEMON_SETS, daemon_set))
        labels = {
            **pod.metadata.labels,
            HASH: digest,
            "pod-template-generation": self._generation(daemon_set),
        }
        return replace(
            pod,
            metadata=replace(pod.metadata, labels=labels),
            spec=with_tolerations(tie_to_node(pod.spec, node)),
        )

    def _generation(self, daemon_set: DaemonSet) -> str:
        annotations = daemon_set.metadata.annotations
        return annotations.get(
            "deprecated.daemonset.template.generation", str(daemon_set.metadata.generation or 1)
        )

    async def _update(self, daemon_set: DaemonSet, plan: _Plan, digest: str) -> None:
        """Replace pods of older templates, as many at a time as may be unavailable."""
        if daemon_set.spec.update_strategy.type == "OnDelete":
            return
        now = self._clock.now()
        least = daemon_set.spec.min_ready_seconds or 0
        unavailable = 0
        idle: list[Pod] = []
        serving: list[Pod] = []
        surge: list[str] = []
        for name in sorted(plan.wanted):
            pods = [pod for pod in plan.pods.get(name, []) if pod.metadata.deletion_timestamp is None]
            new = [pod for pod in pods if pod.metadata.labels.get(HASH) == digest]
            old = [pod for pod in pods if pod.metadata.labels.get(HASH) != digest]
            new_works = any(seconds_until_available(pod, least, now) == 0 for pod in new)
            old_works = any(seconds_until_available(pod, least, now) == 0 for pod in old)
            if not new_works and not old_works:
                unavailable += 1
            if old and (not old_works or (new_works and _surge(daemon_set))):
                idle += old
            elif old and not new:
                serving += old
                surge.append(name)
        most_surge = scale_value(_surge(daemon_set), len(plan.wanted), up=True)
        if most_surge:
            await self.delete_pods(daemon_set, idle)
            busy = sum(len(plan.pods.get(name, [])) > 1 for name in plan.wanted)
            names = surge[: max(0, most_surge - busy)]
            await self.create_pods(daemon_set, [self._pod(daemon_set, name, digest) for name in names])
            return
        rolling = daemon_set.spec.update_strategy.rolling_update
        value = rolling.max_unavailable if rolling is not None and rolling.max_unavailable is not None else 1
        most = max(1, scale_value(value, len(plan.wanted), up=True))
        room = max(0, most - unavailable)
        await self.delete_pods(daemon_set, [*idle, *serving[:room]])

    async def _write_status(self, daemon_set: DaemonSet, plan: _Plan, digest: str) -> None:
        now = self._clock.now()
        least = daemon_set.spec.min_ready_seconds or 0
        scheduled = ready = available = updated = 0
        waits: list[float] = []
        for name in plan.wanted:
            pods = sorted(
                (pod for pod in plan.pods.get(name, []) if is_active(pod)),
                key=lambda pod: pod.metadata.creation_timestamp or "",
            )
            if not pods:
                continue
            scheduled += 1
            ready += any(is_ready(pod) for pod in pods)
            left = [wait for pod in pods if (wait := seconds_until_available(pod, least, now)) is not None]
            available += 0.0 in left
            waits += [wait for wait in left if wait]
            updated += any(pod.metadata.labels.get(HASH) == digest for pod in pods)
        desired = len(plan.wanted)
        status = DaemonSetStatus(
            desired_number_scheduled=desired,
            current_number_scheduled=scheduled,
            number_misscheduled=plan.misplaced,
            number_ready=ready,
            number_available=available or None,
            number_unavailable=(desired - available) or None,
            updated_number_scheduled=updated or None,
            observed_generation=daemon_set.metadata.generation or None,
            collision_count=daemon_set.status.collision_count,
            conditions=daemon_set.status.conditions,
        )
        if waits:
            self.queue.add_after(daemon_set.key, min(waits))
        if status != daemon_set.status:
            await self._client.update(DAEMON_SETS, replace(daemon_set, status=status), subresource="status")


def _surge(daemon_set: DaemonSet) -> int | str | None:
    rolling = daemon_set.spec.update_strategy.rolling_update
    value = rolling.max_surge if rolling is not None else None
    return value if value not in (None, 0, "0%", "0") else None
