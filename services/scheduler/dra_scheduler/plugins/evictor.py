"""The evictor: deletes preemption victims concurrently with the scheduling loop.

Mirrors upstream's ``pkg/scheduler/framework/preemption/executor.go``. The last victim is deleted after all
others, because its deletion is the event that activates the preemptor.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from dra_shared.api.pod import Pod, PodCondition
from dra_shared.api.resources import PODS
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.events import Recorder, reference
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, rfc3339
from dra_shared.log import logger

from dra_scheduler.framework.groupattempt import GroupAttempt
from dra_scheduler.framework.nominations import Nominations
from dra_scheduler.framework.podsinprebind import PodsInPreBind
from dra_scheduler.metrics import VICTIMS, observe_group_victims
from dra_scheduler.podstatus import condition_patch

_FAILURES = (ApiError, httpx.HTTPError, OSError, TimeoutError)

_log = logger(__name__)


class Evictor:
    """Evicts preemption victims. The preemptor is not tried until this is done.

    ``activate`` retries pods now. ``newest`` returns the informer's pod with that key. ``measured``: count
    victims in the service's metrics.
    """

    def __init__(
        self,
        plugin: str,
        nominations: Nominations,
        client: Client,
        recorder: Recorder,
        clock: Clock,
        *,
        in_pre_bind: PodsInPreBind,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        activate: Callable[[Iterable[str]], None],
        newest: Callable[[str], Pod | None],
        measured: bool = False,
    ) -> None:
        self._plugin = plugin
        self._nominations = nominations
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._in_pre_bind = in_pre_bind
        self._spawn = spawn
        self._activate = activate
        self._newest = newest
        self._measured = measured
        # The pods for which victims are being evicted. The value is the last victim, once all others were
        # evicted.
        self._running: dict[str, Pod | None] = {}

    def is_running(self, uid: str) -> bool:
        """True if victims are still being evicted for the pod with that uid."""
        if uid not in self._running:
            return False
        last = self._running[uid]
        if last is None:
            return True
        # The deletion may be observed before its request is answered. No event would follow in that case.
        newest = self._newest(last.key)
        return newest is not None and newest.metadata.deletion_timestamp is None

    def start(self, pod: Pod, node_name: str, victims: Sequence[Pod]) -> None:
        """Evict the victims from the node, except those that are already terminating."""
        if self._measured:
            VICTIMS.observe(len(victims))
        self._start(_Cause((pod,), pod.metadata.uid, "pod", "pod", node_name), victims)

    def start_for_group(self, group: GroupAttempt, victims: Sequence[Pod]) -> None:
        """Evict the victims for the group's pods on any node."""
        if self._measured:
            observe_group_victims(len(victims))
        self._start(_Cause(tuple(group.pods), group.uid, group.kind, "pod group", "cluster"), victims)

    def _start(self, cause: "_Cause", victims: Sequence[Pod]) -> None:
        staying = [victim for victim in victims if victim.metadata.deletion_timestamp is None]
        if staying:
            self._running |= dict.fromkeys(cause.uids)
            self._spawn(self._run(cause, staying))

    async def _run(self, cause: "_Cause", victims: Sequence[Pod]) -> None:
        try:
            if cause.what == "pod":
                await self._end_nominations(cause.pods[0], cause.place)
            await asyncio.gather(*(self._evict(cause, victim) for victim in victims[:-1]))
            self._running |= dict.fromkeys(cause.uids, victims[-1])
            await self._evict(cause, victims[-1])
        except _FAILURES as failure:
            _log.warning("preemption failed", preemptor=cause.uid, node=cause.place, error=str(failure))
            self._end(cause)
            self._activate(cause.uids)
            return
        self._end(cause)
        keys = [victim.key for victim in victims]
        _log.info("preempted", preemptor=cause.uid, node=cause.place, victims=keys)

    def _end(self, cause: "_Cause") -> None:
        for uid in cause.uids:
            self._running.pop(uid, None)

    async def _evict(self, cause: "_Cause", victim: Pod) -> None:
        text = f"Preempted by {cause.what} {cause.uid} on node {cause.place}"
        if self._in_pre_bind.cancel(victim.metadata.uid, self._plugin):
            text += " (in kube-scheduler memory)."
        else:
            try:
                await self._delete(cause, victim)
            except NotFound:
                return
        self._recorder.event(reference(PODS, victim), "Normal", "Preempted", text, "Preempting")

    async def _delete(self, cause: "_Cause", victim: Pod) -> None:
        scheduler = cause.pods[0].spec.scheduler_name
        condition = PodCondition(
            type="DisruptionTarget",
            status="True",
            reason="PreemptionByScheduler",
            message=f"{scheduler}: preempting to accommodate a higher priority {cause.noun}",
            observed_generation=victim.metadata.generation or None,
            last_transition_time=rfc3339(self._clock.now()),
        )
        await self._client.patch_status(PODS, victim, condition_patch(victim, condition))
        meta = victim.metadata
        await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)

    async def _end_nominations(self, pod: Pod, node_name: str) -> None:
        """Clear the nominations of pods of lower priority on the node, so that they look for another node."""
        for other in self._nominations.on(node_name):
            if (other.spec.priority or 0) >= (pod.spec.priority or 0):
                continue
            self._nominations.delete(other.metadata.uid)
            try:
                await self._client.patch_status(PODS, other, {"nominatedNodeName": None})
            except _FAILURES as failure:
                _log.warning("nomination not ended", pod=other.key, node=node_name, error=str(failure))


@dataclass(frozen=True, slots=True)
class _Cause:
    """The pods for which victims are evicted. The other fields are used in messages.

    ``what`` and ``uid`` identify the preemptor, ``noun`` describes it, ``place`` is where it preempts.
    """

    pods: tuple[Pod, ...]
    uid: str
    what: str
    noun: str
    place: str

    @property
    def uids(self) -> tuple[str, ...]:
        return tuple(pod.metadata.uid for pod in self.pods)
