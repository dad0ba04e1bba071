"""Samples of a cluster before, during and after a fault."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from dra_shared.api.meta import Object
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim, ResourceSlice


@dataclass(frozen=True)
class Sample:
    """A cluster's objects at one moment, by UID. ``at`` is that moment, in seconds since the fault began."""

    at: float = 0.0
    pods: dict[str, Pod] = field(default_factory=dict)
    claims: dict[str, ResourceClaim] = field(default_factory=dict)
    slices: dict[str, ResourceSlice] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)

    def objects(self) -> Iterator[Object]:
        """Yield all objects."""
        for kind in (self.pods, self.claims, self.slices, self.nodes):
            yield from kind.values()


@dataclass
class Story:
    """The history of one fault: its duration, its node if it has one, and the samples before, during and after it.

    ``met`` is the number of requests, watches, calls or writes that it affected; None if these are not
    counted.
    """

    fault: str
    seconds: float
    node: str = ""
    before: Sample = field(default_factory=Sample)
    during: list[Sample] = field(default_factory=list)
    after: Sample = field(default_factory=Sample)
    met: int | None = None

    def later(self) -> list[Sample]:
        """Return all samples since the fault began."""
        return [*self.during, self.after]
