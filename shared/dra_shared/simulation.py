"""The pod condition that marks pods whose programs are not simulated. Only dralab's kubelet sets it."""

from collections.abc import Iterable

from dra_shared.api.meta import Condition

SIMULATED = "dralab.dev/Simulated"
NOT_SIMULATED = "ProgramNotSimulated"


def unsimulated_programs(conditions: Iterable[Condition]) -> str:
    """Return the message about programs that are not simulated; empty if there are none."""
    return next((one.message for one in conditions if one.type == SIMULATED and one.status == "False"), "")
