"""Judge by samples of the cluster whether a fault's promise held: see :mod:`dra_shared.faults.story`."""

from dataclasses import dataclass, field

from dra_shared.faults.catalog import KINDS
from dra_shared.faults.story import Story


@dataclass(frozen=True)
class Verdict:
    """The verdict on a promise.

    ``kept`` has a line for each guarantee that held, ``broken`` one for each violation, and ``untried`` one for
    each reason why a guarantee was not tested.
    """

    kept: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)


def judge(story: Story) -> Verdict:
    """Return the verdict on the fault's promise. If the fault affected nothing, ``kept`` is empty."""
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
    """Return the violations that may disappear with time, such as a node that is not Ready again yet."""
    return [line for part in KINDS[story.fault].parts if part.heals for line in part.breaches(story)]
