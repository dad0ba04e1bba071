"""Drivers that each have one bug of a real driver. Each names the check that has to fail and the report of the bug."""

from collections.abc import Sequence

from tests.driver_conformance.mutants import (
    afterwards,
    calls,
    files,
    large,
    later,
    leftbehind,
    life,
    missed,
    mixedup,
    scopes,
    slices,
    unseen,
    versions,
)
from tests.driver_conformance.mutants.mutant import Mutant

MUTANTS: Sequence[type[Mutant]] = [
    *life.MUTANTS,
    *slices.MUTANTS,
    *calls.MUTANTS,
    *files.MUTANTS,
    *later.MUTANTS,
    *versions.MUTANTS,
    *large.MUTANTS,
    *leftbehind.MUTANTS,
    *mixedup.MUTANTS,
    *scopes.MUTANTS,
    *missed.MUTANTS,
    *afterwards.MUTANTS,
    *unseen.MUTANTS,
]

__all__ = [
    "MUTANTS",
    "Mutant",
    "afterwards",
    "calls",
    "files",
    "large",
    "later",
    "leftbehind",
    "life",
    "missed",
    "mixedup",
    "scopes",
    "slices",
    "unseen",
    "versions",
]
