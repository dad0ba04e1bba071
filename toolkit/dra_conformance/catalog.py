"""The list of all checks, in display order."""

from collections.abc import Sequence

from dra_conformance.areas import (
    admin,
    afterrestart,
    allocatable,
    binding,
    configeffects,
    counters,
    health,
    metadata,
    metrics,
    permissions,
    process,
    registration,
    slicerepairs,
    status,
    taints,
    thousands,
)
from dra_conformance.check import Area, Check

AREAS: Sequence[Area] = (
    registration.AREA,
    # The driver must still run for the checks after these.
    process.PROCESS,
    # The checks of the modules slices, slicenames and slicerepairs.
    slicerepairs.AREA,
    # The checks of the module prepare, and those of oddclaims, slowreads and afterrestart, in the same area.
    afterrestart.PREPARE,
    afterrestart.UNPREPARE,
    # The checks of the module cdi and those of cdidevices and afterrestart.
    afterrestart.CDI,
    # The checks of the module config and those of configeffects.
    configeffects.AREA,
    admin.AREA,
    afterrestart.SHARES,
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
    """Return the checks whose id contains one of the comma-separated words.

    A word after a minus excludes checks: ``prepare,cdi`` selects two areas, ``-health`` all areas but one.
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
