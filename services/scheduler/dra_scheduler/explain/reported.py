"""The report of a pod from a dump, with the verdict that its own scheduler left in the pod's status."""

from collections.abc import Mapping

import msgspec
from dra_shared.api.pod import Pod

from dra_scheduler.explain.report import GroupReport, PodReport

_replace = msgspec.structs.replace
_PENDING = "pending: "


def as_reported(report: PodReport, pods: Mapping[str, Pod]) -> PodReport:
    """Return the report with the PodScheduled conditions of the pod and of its group's pods."""
    if report.group is not None:
        report = _replace(report, group=_group(report.group, pods))
    state, message = _verdict(report.state.removeprefix("pending: "), report.message, pods.get(report.pod))
    return _replace(
        report, state=f"pending: {state}" if report.state.startswith("pending: ") else state, message=message
    )


def _group(group: GroupReport, pods: Mapping[str, Pod]) -> GroupReport:
    members = []
    for member in group.members:
        if not member.node:
            state, message = _verdict(member.state, member.message, pods.get(member.pod))
            member = _replace(member, state=state, message=message)
        members.append(member)
    return _replace(group, members=tuple(members))


def _verdict(state: str, message: str, pod: Pod | None) -> tuple[str, str]:
    """Return the state and message of a waiting pod from its condition."""
    conditions = pod.status.conditions if pod is not None else ()
    reported = next((each for each in conditions if each.type == "PodScheduled"), None)
    if reported is None or reported.status != "False":
        return state, message
    if state == "active":
        state = (reported.reason or "waiting").lower()
    return state, reported.message or message
