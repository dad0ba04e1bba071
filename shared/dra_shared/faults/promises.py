"""Judge the promise of a fault by samples of the cluster: see :mod:`dra_shared.faults.story`."""

from dataclasses import dataclass, field

from dra_shared.faults.catalog import KINDS
from dra_shared.faults.story import Story


@dataclass(frozen=True)
class Verdict:
    """The verdict on a promise: a line for each part that was kept, for each breach, and for each reason why a
    part was not tested.
    """

    kept: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)


def judge(story: Story) -> Verdict:
    """Return the verdict on the fault's promise. If the fault affected nothing, nothing counts as kept."""
    kept, broken, untried = [], [], []
    kind = KINDS[story.fault]
    for part in kind.parts:
        found = list(dict.fromkeys(part.breaches(story)))
        broken += found
        if reason := part.untried(story):
            untried.append(reason)
        elif not found:
            kept.append(part.holds)
    if story.met == 0:
        return Verdict([], broken, [kind.idle])
    return Verdict(kept, broken, list(dict.fromkeys(untried)))


def find_healing(story: Story) -> list[str]:
    """Return the breaches that may disappear with time: things that are not back yet."""
    return [line for part in KINDS[story.fault].parts if part.heals for line in part.breaches(story)]
