"""The hint: the reasons of one node in one line, for the FailedScheduling event."""

from collections.abc import Sequence

from dra_scheduler.explain.report import NodeReport
from dra_scheduler.explain.text import gists, of_other_class, values_of

# The maximum numbers of reasons for a request and in total, and the maximum length of a reason.
_GROUPS = 2
_PARTS = 3
_LENGTH = 120


def summarize(report: NodeReport, shortfalls: Sequence[str] = ()) -> str:
    """Summarize in one line why the devices of a node were rejected, starting with devices closest to being accepted.

    ``shortfalls``, the requirements that no device of the cluster meets, come last.
    """
    found: list[str] = []
    # Requests that the search did not reach did not decide the outcome.
    reached = [request for request in report.requests if request.reached]
    for request in reached or report.requests:
        if request.suitable < request.count != 1:
            found.append(f"request {request.request} wants {request.count} devices, {request.suitable} suit")
        groups = gists(request.devices)
        decisive = [group for group, devices in groups.items() if not of_other_class(devices[0])] or [*groups]
        for group in decisive[:_GROUPS]:
            devices, gist = groups[group], group[0]
            if all(part.kind == "deadEnd" for part in devices[0].details):
                continue
            classes = {part.device_class for part in devices[0].details if not part.error}
            text = _cut(gist) if "" in classes or len(classes) != 1 else f"not of class {classes.pop()}"
            values = values_of(devices, gist)
            seen = f" ({_cut(values[0])})" if len(values) == 1 and not text.startswith("not of") else ""
            found.append(f"{len(devices)} {'device' if len(devices) == 1 else 'devices'} {text}{seen}")
    found = found[:_PARTS]
    found += [f"pool {pool.pool} {pool.problem}" for pool in report.pools if pool.problem][:1]
    found += shortfalls[:_PARTS]
    return f"[{report.node}: {'; '.join(found)}]" if found else ""


def _cut(text: str) -> str:
    return text if len(text) <= _LENGTH else text[: _LENGTH - 1] + "…"
