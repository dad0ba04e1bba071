"""What plugins answer where a profile has the extension point off that prepares them.

Most of upstream's plugins find no state then, and fail; the others work out by themselves what they need.
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
    """Stands for a plugin whose PreFilter is off: whatever needs its state fails."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._status = error(_WITHOUT_PRE_FILTER[name])

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return self._status

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._status

    async def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Nothing was taken."""


def needs_pre_filter(name: str) -> bool:
    """Whether the plugin fails without its PreFilter."""
    return name in _WITHOUT_PRE_FILTER


def score_problem(name: str) -> str:
    """With what the plugin's Score fails without its PreScore; empty: it does not."""
    text = _WITHOUT_PRE_SCORE.get(name)
    return f'running Score plugins: plugin "{name}" failed with: {text}' if text else ""
