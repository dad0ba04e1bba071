"""The failure reporter: FailedScheduling events, and the conditions of pods and pod groups.

Mirrors ``handleSchedulingFailure`` and ``updatePod`` in upstream's ``pkg/scheduler/schedule_one.go``.
"""

import asyncio
from collections.abc import Callable

import httpx
from dra_shared.api.pod import Pod, PodCondition
from dra_shared.api.resources import PODS
from dra_shared.api.scheduling import PodGroup
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.events import Recorder, reference
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, rfc3339
from dra_shared.log import logger
from dra_shared.podgroups import pod_groups, scheduled_condition
from dra_shared.version import DEFAULT, Version

from dra_scheduler.podstatus import condition_patch

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"

# The maximum length of an event's note.
_NOTE_LIMIT = 1024

_log = logger(__name__)


class FailureReporter:
    """Writes events and conditions in the background.

    ``recorder`` returns the event recorder for a pod. ``spawn`` keeps a task alive until it is done.
    """

    def __init__(
        self,
        client: Client,
        recorder: Callable[[Pod], Recorder],
        clock: Clock,
        spawn: Callable[..., asyncio.Task[None]],
        kubernetes: Version = DEFAULT,
    ) -> None:
        self._groups = pod_groups(kubernetes)
        self._scheduled = scheduled_condition(kubernetes)
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._spawn = spawn
        self._writing: dict[str, asyncio.Task[None]] = {}
        # Writes are serialized, so that the newest verdict on a group is stored last.
        self._group_writes = asyncio.Lock()

    def report(
        self,
        pod: Pod,
        reason: str,
        message: str,
        *,
        event: str | None = None,
        nominated: str | None = None,
        announced: bool = False,
    ) -> None:
        """Report a pod's failure with the condition's ``reason``.

        ``event`` is the event's text if it differs from ``message``. ``nominated`` is the node that preemption
        frees for the pod: empty clears it, None means no change. ``announced``: the pod's status may name
        another node since ``pod`` was read.
        """
        note = _shorten(event or message)
        self._recorder(pod).event(reference(PODS, pod), "Warning", "FailedScheduling", note, "Scheduling")
        if nominated == pod.status.nominated_node_name and not announced:
            nominated = None
        uid = pod.metadata.uid
        self._writing[uid] = task = self._spawn(self._set_condition(pod, reason, message, nominated))
        task.add_done_callback(lambda done: self._finish_write(uid, done))

    def _finish_write(self, uid: str, task: asyncio.Task[None]) -> None:
        if self._writing.get(uid) is task:
            del self._writing[uid]

    async def wait_until_written(self, uid: str) -> None:
        """Return once no write for the pod is pending, so that the next write cannot be overtaken."""
        while uid in self._writing:
            await asyncio.wait((self._writing[uid],))

    async def _set_condition(self, pod: Pod, reason: str, message: str, nominated: str | None) -> None:
        old = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        same = old is not None and (old.status, old.reason, old.message) == ("False", reason, message)
        if same and nominated is None:
            return
        now = rfc3339(self._clock.now())
        changed = old is None or old.status != "False"
        condition = PodCondition(
            type="PodScheduled",
            status="False",
            reason=reason,
            message=message,
            observed_generation=pod.metadata.generation or None,
            last_transition_time=now if changed or old is None else old.last_transition_time,
        )
        status = condition_patch(pod, condition)
        if nominated is not None:
            status["nominatedNodeName"] = nominated or None
        try:
            await self._client.patch_status(PODS, pod, status)
        except NotFound:
            return
        except (ApiError, httpx.HTTPError, OSError, TimeoutError) as failure:
            _log.warning("condition not written", pod=pod.key, error=str(failure))

    def report_group(self, group: PodGroup, message: str | None, reason: str = UNSCHEDULABLE) -> None:
        """Report that the group could not be scheduled, or with ``message`` None that it could, which is final."""
        self._spawn(self._set_group_condition(group, message, reason))

    async def _set_group_condition(self, group: PodGroup, message: str | None, reason: str) -> None:
        status = "False"
        if message is None:
            status, reason = "True", "Scheduled"
        old = next((c for c in group.status.conditions if c.type == self._scheduled), None)
        if old is not None and (old.status == "True" or (old.status, old.message) == (status, message)):
            return
        now = rfc3339(self._clock.now())
        condition = {
            "type": self._scheduled,
            "status": status,
            "reason": reason,
            # Send an empty message too, or the previous one would remain.
            "message": message or "",
            "observedGeneration": group.metadata.generation or None,
            "lastTransitionTime": now if old is None or old.status != status else old.last_transition_time,
        }
        try:
            async with self._group_writes:
                await self._client.patch_status(self._groups, group, {"conditions": [condition]})
        except NotFound:
            return
        except (ApiError, httpx.HTTPError, OSError, TimeoutError) as failure:
            _log.warning("condition not written", pod_group=group.key, error=str(failure))


def _shorten(note: str) -> str:
    if len(note.encode()) <= _NOTE_LIMIT:
        return note
    suffix = " ..."
    return note.encode()[: _NOTE_LIMIT - len(suffix)].decode(errors="ignore") + suffix
