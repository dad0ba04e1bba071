"""The behaviour of plugins in a profile that disables the extension point which prepares them.

Most of upstream's plugins then fail, because they find no state. The others compute the state when they need
it.
"""

from collections.abc import Mapping

from dra_shared.api.pod import Pod

from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Status, error

_WITHOUT_PRE_FILTER: Mapping[str, str] = {
    "DynamicResources": "not found",
    "InterPodAffinity": 'error reading "PreFilterInterPodAffinity" from cycleState: not found',
    "NodeDeclaredFeatures": 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found',
    "NodePorts": 'reading "PreFilterNodePorts" from cycleState: not found',
    "NodeResourcesFit": 'error reading "PreFilterNodeResourcesFit" from cycleState: not found',
    "PodTopologySpread": 'reading "PreFilterPodTopologySpread" from cycleState: not found',
    "VolumeBinding": "not found",
    "VolumeRestrictions": 'cannot read "PreFilterVolumeRestrictions" from cycleState',
}
_WITHOUT_PRE_SCORE: Mapping[str, str] = {
    "InterPodAffinity": 'failed to read "PreScoreInterPodAffinity" from cycleState: not found',
    "PodTopologySpread": 'error reading "PreScorePodTopologySpread" from cycleState: not found',
    "TaintToleration": 'failed to read "PreScoreTaintToleration" from cycleState: not found',
}


class Unprepared:
    """Replaces a plugin whose PreFilter is off. Everything that needs the plugin's state fails."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._status = error(_WITHOUT_PRE_FILTER[name])

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return self._status

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._status

    async def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """No-op: nothing was reserved."""


def needs_pre_filter(name: str) -> bool:
    """True if the plugin fails without its PreFilter."""
    return name in _WITHOUT_PRE_FILTER


def score_problem(name: str) -> str:
    """Return the error of the plugin's Score without its PreScore. Empty if it does not fail."""
    text = _WITHOUT_PRE_SCORE.get(name)
    return f'running Score plugins: plugin "{name}" failed with: {text}' if text else ""
