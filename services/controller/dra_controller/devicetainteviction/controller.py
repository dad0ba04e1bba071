"""The device taint eviction controller: it passes events to :mod:`.state`, and does the work that the state schedules.

Mirrors pkg/controller/devicetainteviction/device_taint_eviction.go.
"""

import functools
from typing import Any

from dra_shared.api.pod import ObjectReference, Pod
from dra_shared.api.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dra_shared.api.taintrule import DeviceTaintRule
from dra_shared.cel import compile_expression
from dra_shared.claims import pod_group_name
from dra_shared.client.errors import NotFound
from dra_shared.client.events import reference
from dra_shared.client.informer import Informer
from dra_shared.client.rest import PatchType
from dra_shared.client.workqueue import WorkQueue, run_workers
from dra_shared.clock import parse_rfc3339, rfc3339
from dra_shared.log import logger
from dra_shared.slicetracker import SliceTracker
from dra_shared.taintcriteria import TaintCriteria
from dra_shared.taintrules import can_select_by_class, have_status, taint_rules
from dra_shared.version import V1_38
from msgspec.structs import replace
from prometheus_client import Counter, Histogram

from dra_controller.devicetainteviction.model import PodRef, RuleRef, RuleTaint, Work
from dra_controller.devicetainteviction.rulestatus import condition, find
from dra_controller.devicetainteviction.state import GROUP_INDEX, RULE_STATUS_SECONDS, EvictionState
from dra_controller.framework import Context, Controller
from dra_controller.queuemetrics import measure_queue
from dra_controller.uids import RecentUids

_WORKERS = 8
_EVENT_REASON = "DeviceTaintManagerEviction"
_CONDITION = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByDeviceTaintManager",
    "message": "Device Taint manager: deleting due to NoExecute taint",
}
_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)

_log = logger(__name__)


class DeviceTaintEvictionController(Controller):
    """The device-taint-eviction-controller of kube-controller-manager."""

    name = "device-taint-eviction-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.queue: WorkQueue[Work] = WorkQueue(context.clock)
        measure_queue(context.registry, self.name, self.queue)
        self.recorder = context.recorder(self.name)
        pods = context.informers.informer(PODS)
        claims = context.informers.informer(RESOURCE_CLAIMS)
        slices = context.informers.informer(RESOURCE_SLICES)
        self._watched: list[Informer[Any]] = [pods, claims, slices]
        pod_groups = context.features.enabled("DRAWorkloadResourceClaims")
        since_1_38 = context.features.version >= V1_38
        reports = (self._schedule, self._report_cancelled)
        self.state = EvictionState(
            pods.store, context.clock, *reports, pod_groups=pod_groups, any_effect=since_1_38
        )
        self._rules = None
        tracked = False
        self._kubernetes = context.features.version
        self._rule_resource = taint_rules(context.features)
        if self._rule_resource is not None:
            rules = context.informers.informer(self._rule_resource)
            self._watched.append(rules)
            self._rules = rules.store
            if tracked := can_select_by_class(self._kubernetes):
                self._track(self._rule_resource)
            else:
                changed = self.state.rule_changed
                rules.add_handler(lambda new: changed(None, new), changed, lambda old: changed(old, None))
        if pod_groups:
            pods.store.add_index(GROUP_INDEX, _group_of)
        state = self.state
        claims.add_handler(
            lambda new: state.claim_changed(None, new),
            state.claim_changed,
            lambda old: state.claim_changed(old, None),
        )
        pods.add_handler(
            lambda new: state.pod_changed(None, new),
            state.pod_changed,
            lambda old: state.pod_changed(old, None),
        )
        if not tracked:
            slices.add_handler(
                lambda new: state.slice_changed(None, new),
                state.slice_changed,
                lambda old: state.slice_changed(old, None),
            )
        self._evicted = RecentUids()
        self._deletions = Counter(
            "device_taint_eviction_controller_pod_deletions_total",
            "Pods deleted because of device taints since the controller started",
            registry=context.registry,
        )
        self._latency = Histogram(
            "device_taint_eviction_controller_pod_deletion_duration_seconds",
            "Seconds from the moment when a pod had to go to its deletion",
            buckets=_BUCKETS,
            registry=context.registry,
        )

    @property
    def idle(self) -> bool:
        return self.queue.idle

    @classmethod
    def is_wanted(cls, context: Context) -> bool:
        return context.features.enabled("DRADeviceTaints")

    def _track(self, resource: Resource[DeviceTaintRule]) -> None:
        """Add the taints of rules to the slices, as in 1.34. Pods are then evicted because of the slices' taints."""
        context = self._context
        classes = context.informers.informer(DEVICE_CLASSES)
        self._watched.append(classes)
        recorder = context.recorder("resource_slice_tracker")

        def report_failure(rule: DeviceTaintRule, message: str) -> None:
            recorder.event(reference(resource, rule), "Warning", "CELRuntimeError", message)

        compile_ = functools.partial(compile_expression, features=context.features)
        tracker = SliceTracker(criteria=TaintCriteria(classes.store.get, compile_, report_failure))
        context.informers.informer(resource).add_handler(
            tracker.set_rule,
            lambda _, new: tracker.set_rule(new),
            lambda old: tracker.delete_rule(old.metadata.name),
        )
        classes.add_handler(lambda _: tracker.update_class(), lambda _, __: tracker.update_class())
        tracker.add_listener(self.state.slice_changed)
        context.informers.informer(RESOURCE_SLICES).add_handler(
            tracker.set_slice,
            lambda _, new: tracker.set_slice(new),
            lambda old: tracker.delete_slice(old.metadata.name),
        )

    async def run(self) -> None:
        for informer in self._watched:
            await informer.wait_for_sync()
        await run_workers(self.queue, self.reconcile, workers=_WORKERS, name=self.name)

    async def reconcile(self, work: Work) -> None:
        """Evict the pod or report the rule if the time has come. Otherwise, queue it for that time."""
        if isinstance(work, PodRef):
            again = await self._evict(work)
        else:
            again = await self._report_on(work)
        if again > 0:
            self.queue.add_after(work, again)

    def _schedule(self, work: Work, delay: float) -> None:
        self.queue.add_after(work, delay)

    async def _evict(self, pod: PodRef) -> float:
        eviction = self.state.evictions.get(pod)
        if eviction is None or pod.uid in self._evicted:
            return 0.0
        left = (eviction.when - self._clock.now()).total_seconds()
        if left > 0:
            return left
        try:
            deleted = await self._delete(pod)
        except NotFound:
            deleted = False
        # The pod is deleted. Ignore later informer events about it.
        self.state.evictions.pop(pod, None)
        self._evicted.add(pod.uid)
        if not deleted:
            return 0.0
        latency = max(0.0, (self._clock.now() - eviction.when).total_seconds())
        self._deletions.inc()
        self._latency.observe(latency)
        _log.info(
            "evicted pod", pod=str(pod), seconds_late=latency, reasons=[str(r) for r in eviction.reasons]
        )
        for reason in eviction.reasons:
            if isinstance(reason, RuleTaint):
                ref = RuleRef.of(reason.rule.metadata)
                self.state.evicted_by_rule[ref.uid] = self.state.evicted_by_rule.get(ref.uid, 0) + 1
                # Check again later, because the informer still has the deleted pod now.
                self.queue.add_after(ref, RULE_STATUS_SECONDS)
        return 0.0

    async def _delete(self, ref: PodRef) -> bool:
        """Write the reason to the pod, then delete it. Return False if there is nothing left to do.

        Raises:
            NotFound: the pod is gone.
            Conflict: the pod was replaced in this very moment.
        """
        pod = await self._client.get(PODS, ref.name, ref.namespace)
        if pod.metadata.uid != ref.uid:
            return False
        if pod.metadata.deletion_timestamp is not None:
            return True
        self._report(ref, "Marking for deletion")
        known = next((entry for entry in pod.status.conditions if entry.type == _CONDITION["type"]), None)
        same = known is not None and all(getattr(known, key) == value for key, value in _CONDITION.items())
        if not same:
            transition = rfc3339(self._clock.now())
            if known is not None and known.status == "True" and known.last_transition_time:
                transition = known.last_transition_time
            entry = {**_CONDITION, "lastProbeTime": None, "lastTransitionTime": transition}
            await self._client.patch_status(PODS, pod, {"conditions": [entry]})
        await self._client.delete(PODS, ref.name, ref.namespace, uid=ref.uid)
        return True

    async def _report_on(self, ref: RuleRef) -> float:
        """Bring the condition of the rule up to date, but not more often than every few seconds."""
        rule = self._rules.get(ref.name) if self._rules is not None else None
        resource = self._rule_resource
        if rule is None or resource is None or rule.metadata.uid != ref.uid:
            return 0.0
        if not have_status(resource, self._kubernetes):
            return 0.0
        now = self._clock.now()
        known = find(rule)
        if (
            known is not None
            and known.last_transition_time is not None
            and (known.observed_generation or 0) == rule.metadata.generation
        ):
            # The transition time is updated with the message, so it is the time of the last update. Limit the
            # updates, because counting the pods is expensive.
            passed = (now - parse_rfc3339(known.last_transition_time)).total_seconds()
            if passed < RULE_STATUS_SECONDS:
                return RULE_STATUS_SECONDS - passed
        wanted = condition(self.state, rule)
        if known is not None and replace(known, last_transition_time=None) == wanted:
            return 0.0
        body: dict[str, Any] = {
            "apiVersion": resource.api_version,
            "kind": DEVICE_TAINT_RULES.kind,
            "metadata": {"name": ref.name, "uid": ref.uid},
            "status": {
                "conditions": [
                    {
                        "type": wanted.type,
                        "status": wanted.status,
                        "reason": wanted.reason,
                        "message": wanted.message,
                        "observedGeneration": rule.metadata.generation,
                        "lastTransitionTime": rfc3339(now),
                    }
                ]
            },
        }
        await self._client.patch(
            resource,
            ref.name,
            body,
            patch_type=PatchType.APPLY,
            subresource="status",
            field_manager=self.name,
            force=True,
        )
        return 0.0

    def _report_cancelled(self, pod: PodRef) -> None:
        self._report(pod, "Cancelling deletion")
        _log.info("eviction of a pod cancelled", pod=str(pod))

    def _report(self, pod: PodRef, message: str) -> None:
        involved = ObjectReference(
            api_version="v1", kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid
        )
        self.recorder.event(involved, "Normal", _EVENT_REASON, message)


def _group_of(pod: Pod) -> list[str]:
    name = pod_group_name(pod)
    return [f"{pod.metadata.namespace}/{name}"] if name is not None else []
