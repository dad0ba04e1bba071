"""The row of a pod: its most important status, from phase, conditions and containers."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dra_shared.durations import moment, since
from dra_shared.jsontypes import JsonObject
from dra_shared.simulation import SIMULATED

from dra_apiserver.common.cells import NONE


class _Tally:
    """Counts over the container statuses."""

    def __init__(self) -> None:
        self.ready = 0
        self.restarts = 0
        self.last_restart: datetime | None = None

    def count(self, status: JsonObject) -> None:
        self.restarts += status.get("restartCount", 0)
        ended = moment(((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt"))
        if ended is not None and (self.last_restart is None or ended > self.last_restart):
            self.last_restart = ended


def pod_cells(pod: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of a pod."""
    spec, status, metadata = pod.get("spec") or {}, pod.get("status") or {}, pod.get("metadata") or {}
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    reason = status.get("reason") or status.get("phase") or ""
    if (conditions.get("PodScheduled") or {}).get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    sidecars = {
        one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"
    }
    tally, kept = _Tally(), _Tally()
    initializing = _init_reason(spec, status, sidecars, tally, kept)
    reason = initializing or reason
    if not initializing or (conditions.get("Initialized") or {}).get("status") == "True":
        kept.ready = tally.ready
        tally = kept
        reason = _container_reason(status, conditions, reason, tally)
        if reason == "Running" and (conditions.get(SIMULATED) or {}).get("status") == "False":
            reason = "Running (not simulated)"
    if metadata.get("deletionTimestamp") and status.get("reason") == "NodeLost":
        reason = "Unknown"
    elif metadata.get("deletionTimestamp") and status.get("phase") not in ("Succeeded", "Failed"):
        reason = "Terminating"
    restarts = str(tally.restarts)
    if tally.restarts and tally.last_restart is not None:
        restarts = f"{restarts} ({since(tally.last_restart.isoformat(), now)} ago)"
    total = len(spec.get("containers") or ()) + len(sidecars)
    addresses = status.get("podIPs") or ()
    return [
        metadata.get("name", ""),
        f"{tally.ready}/{total}",
        reason,
        restarts,
        since(metadata.get("creationTimestamp"), now),
        (addresses[0].get("ip") if addresses else "") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec, conditions),
    ]


def _end_reason(terminated: JsonObject) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _init_reason(
    spec: JsonObject, status: JsonObject, sidecars: set[str], tally: _Tally, kept: _Tally
) -> str:
    """Return the reason why init containers are not done; empty if they are."""
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        state, sidecar = container.get("state") or {}, container.get("name") in sidecars
        tally.count(container)
        if sidecar:
            kept.count(container)
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if sidecar and container.get("started"):
            tally.ready += bool(container.get("ready"))
            continue
        if terminated is not None:
            return f"Init:{_end_reason(terminated)}"
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(spec.get('initContainers') or ())}"
    return ""


def _container_reason(
    status: JsonObject, conditions: Mapping[Any, JsonObject], reason: str, tally: _Tally
) -> str:
    running = False
    for container in reversed(status.get("containerStatuses") or ()):
        state = container.get("state") or {}
        tally.count(container)
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = _end_reason(terminated)
        elif container.get("ready") and state.get("running") is not None:
            running = True
            tally.ready += 1
    if reason == "Completed" and running:
        ready = (conditions.get("Ready") or {}).get("status") == "True"
        return "Running" if ready else "NotReady"
    return reason


def _gates(spec: JsonObject, conditions: Mapping[Any, JsonObject]) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return NONE
    passed = sum((conditions.get(gate.get("conditionType")) or {}).get("status") == "True" for gate in gates)
    return f"{passed}/{len(gates)}"


def row_conditions(pod: JsonObject) -> list[dict[str, str]] | None:
    """Return the row's condition for a finished pod, so that clients can hide it."""
    phase = (pod.get("status") or {}).get("phase")
    messages = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    if phase not in messages:
        return None
    return [{"type": "Completed", "status": "True", "reason": phase, "message": messages[phase]}]
