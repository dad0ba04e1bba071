"""The report of a pod of a dump, whose own scheduler has left its verdict in the pod's status."""

import msgspec
from dra_shared.api.pod import Pod

from dra_scheduler.explain.report import PodReport


def as_reported(report: PodReport, pod: Pod | None) -> PodReport:
    """Return the report with what the pod's condition PodScheduled says."""
    if pod is None or report.node:
        return report
    reported = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
    if reported is None or reported.status != "False":
        return report
    state = report.state
    if state == "pending: active":
        state = f"pending: {(reported.reason or 'waiting').lower()}"
    return msgspec.structs.replace(report, state=state, message=reported.message or report.message)
