"""All checks, in the order in which they are shown."""

from collections.abc import Sequence

from dra_conformance.areas import (
    admin,
    allocatable,
    binding,
    cdidevices,
    configeffects,
    counters,
    health,
    metadata,
    metrics,
    oddclaims,
    permissions,
    process,
    registration,
    shares,
    slices,
    status,
    taints,
    thousands,
    unprepare,
)
from dra_conformance.check import Area, Check

AREAS: Sequence[Area] = (
    registration.AREA,
    # Before others look at a driver that has ended.
    process.PROCESS,
    slices.AREA,
    # With those of oddclaims, which are of the same area.
    oddclaims.AREA,
    unprepare.AREA,
    # With those of cdidevices.
    cdidevices.AREA,
    # With those of configeffects.
    configeffects.AREA,
    admin.AREA,
    shares.AREA,
    counters.AREA,
    allocatable.AREA,
    binding.AREA,
    taints.AREA,
    status.AREA,
    health.AREA,
    metadata.AREA,
    metrics.AREA,
    thousands.AREA,
    permissions.AREA,
    process.RESOURCES,
    process.LOGS,
)
CHECKS: Sequence[Check] = tuple(check for area in AREAS for check in area.checks)


def select(expression: str) -> list[Check]:
    """The checks whose id has one of the words, separated by commas, and none of those after a minus.

    ``prepare,cdi`` chooses two areas, ``-health`` all but one.
    """
    words = [word for word in (part.strip() for part in expression.split(",")) if word]
    wanted = [word for word in words if not word.startswith("-")]
    unwanted = [word[1:] for word in words if word.startswith("-")]
    return [
        check
        for check in CHECKS
        if (not wanted or any(word in check.id for word in wanted))
        and not any(word in check.id for word in unwanted)
    ]
