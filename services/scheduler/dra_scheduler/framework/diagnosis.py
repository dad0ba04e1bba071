"""The diagnosis: the reason why no node can take a pod, with the text of FailedScheduling events.

Mirrors ``Diagnosis`` and ``FitError`` in upstream's ``pkg/scheduler/framework/types.go``.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from dra_scheduler.framework.status import Status


@dataclass(slots=True)
class Diagnosis:
    """The reason for a rejection: each node's status, or PreFilter's message for all nodes.

    ``hint`` is a short explanation that we append to upstream's text.
    """

    nodes: int
    statuses: dict[str, Status] = field(default_factory=dict)
    pre_filter: str = ""
    post_filter: str = ""
    plugins: set[str] = field(default_factory=set)
    hint: str = ""

    @property
    def message(self) -> str:
        """The text of the event and the condition (framework.FitError, framework.ErrNoNodesAvailable)."""
        if not self.nodes:
            return "no nodes available to schedule pods"
        text = f"0/{self.nodes} nodes are available:"
        if self.pre_filter:
            text += f" {self.pre_filter}."
        else:
            reasons = histogram(self.statuses)
            if reasons:
                text += f" {reasons}."
        if self.post_filter:
            text += f" {self.post_filter}"
        return text

    def with_hint(self, message: str) -> str:
        """Return the message followed by the hint."""
        return f"{message} {self.hint}" if self.hint else message


def histogram(statuses: Mapping[str, Status]) -> str:
    """Return the number of nodes for each reason, sorted by text."""
    counts: Counter[str] = Counter()
    # Count equal lists of reasons first, because most nodes share a few lists.
    for reasons, count in Counter([status.reasons for status in statuses.values()]).items():
        for reason in reasons:
            counts[reason] += count
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
