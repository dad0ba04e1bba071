"""The status of an MPIJob.

Mirrors updateMPIJobStatus in pkg/controller/mpi_job_controller.go, and mpi_job_controller_status.go.
"""

from collections.abc import Sequence

from dra_shared.api.batch import Job, JobCondition
from dra_shared.api.pod import Pod

from dra_controller.jobkinds.controller import Draft


def set_condition(draft: Draft, name: str, status: str, reason: str, message: str, now: str = "") -> bool:
    """Set a condition. Return True if status or reason changed. The condition becomes the last one in the list."""
    found = draft.condition(name)
    if found is not None and (found["status"], found["reason"]) == (status, reason):
        return False
    moment = now or draft.now
    since = found["lastTransitionTime"] if found is not None and found["status"] == status else moment
    kept = [one for one in draft.status.get("conditions", []) if one["type"] != name]
    if name in ("Failed", "Succeeded"):
        for one in kept:
            if one["type"] in ("Running", "Failed"):
                one["status"] = "False"
    new = {"type": name, "status": status, "reason": reason, "message": message}
    draft.status["conditions"] = [*kept, {**new, "lastTransitionTime": since, "lastUpdateTime": moment}]
    return True


def write_status(
    draft: Draft,
    launcher: Job | None,
    launched: Sequence[Pod],
    workers: Sequence[Pod],
    wanted: int,
    *,
    suspended: bool,
) -> None:
    """Write the numbers of pods, and the conditions."""
    key = draft.obj.key
    if suspended:
        if set_condition(draft, "Suspended", "True", "MPIJobSuspended", "MPIJob suspended"):
            draft.event("Normal", "MPIJobSuspended", "MPIJob suspended")
    elif draft.condition("Suspended") is not None and set_condition(
        draft, "Suspended", "False", "MPIJobResumed", "MPIJob resumed"
    ):
        draft.event("Normal", "MPIJobResumed", "MPIJob resumed")
        draft.status["startTime"] = draft.now
    running = sum(pod.status.phase == "Running" for pod in launched)
    statuses = draft.status.setdefault("replicaStatuses", {})
    if launcher is not None:
        statuses["Launcher"] = _write_launcher(draft, launcher, launched, running)
    phases = [pod.status.phase for pod in workers]
    counts = {"active": "Running", "failed": "Failed", "succeeded": "Succeeded"}
    statuses["Worker"] = {name: number for name, phase in counts.items() if (number := phases.count(phase))}
    evicted = sum(pod.status.phase == "Failed" and pod.status.reason == "Evicted" for pod in workers)
    if evicted:
        text = f"{evicted}/{len(workers)} workers are evicted"
        if set_condition(draft, "Failed", "True", "MPIJobEvicted", text):
            draft.event("Warning", "MPIJobEvicted", text)
    if suspended:
        set_condition(draft, "Running", "False", "MPIJobSuspended", f"MPIJob {key} is suspended.")
    elif draft.has("Succeeded") or draft.has("Failed"):
        if draft.condition("Running") is None:
            text = f"MPIJob {key} is finished but Running condition was never set."
            moment = draft.status.get("completionTime") or draft.now
            set_condition(draft, "Running", "False", "MPIJobRunning", text, moment)
    elif (
        running
        and phases.count("Running") == wanted
        and set_condition(draft, "Running", "True", "MPIJobRunning", f"MPIJob {key} is running.")
    ):
        draft.event("Normal", "MPIJobRunning", f"MPIJob {key} is running")


def _write_launcher(draft: Draft, launcher: Job, launched: Sequence[Pod], running: int) -> dict[str, int]:
    """Write how the launcher ended, and return its numbers."""
    key, numbers = draft.obj.key, {"failed": launcher.status.failed or 0}
    ended = next(
        (
            one
            for one in launcher.status.conditions
            if one.type in ("Complete", "Failed") and one.status == "True"
        ),
        None,
    )
    if ended is None:
        numbers["active"] = running
    elif ended.type == "Complete":
        numbers["succeeded"] = 1
        text = f"MPIJob {key} successfully completed."
        draft.event("Normal", "MPIJobSucceeded", text)
        draft.status.setdefault("completionTime", launcher.status.completion_time)
        set_condition(draft, "Succeeded", "True", "MPIJobSucceeded", text)
    else:
        reason, text = _failure(draft, ended, launched)
        draft.event("Warning", reason, text)
        draft.status.setdefault("completionTime", draft.now)
        set_condition(draft, "Failed", "True", reason, text)
    return {name: number for name, number in numbers.items() if number}


def _failure(draft: Draft, ended: JobCondition, launched: Sequence[Pod]) -> tuple[str, str]:
    reason = ended.reason or "MPIJobFailed"
    text = ended.message or f"MPIJob {draft.obj.key} has failed"
    failed = [pod for pod in launched if pod.status.phase == "Failed"]
    if reason == "BackoffLimitExceeded" and failed:
        last = max(failed, key=lambda pod: pod.metadata.creation_timestamp or "")
        reason, text = f"{reason}/{last.status.reason}", f"{text}: {last.status.message}"
    return reason, text
