"""Bugs that appear only on nodes with thousands of devices."""

from dra_shared.jsontypes import JsonObject

from tests.driver_conformance.mutants.mutant import CPU, KUBERNETES, ROCM, Mutant
from tests.driver_conformance.servicers import Refused

_LARGE = 100
_NRI = "https://github.com/containers/nri-plugins"


class _OnLargeNodes(Mutant):
    """Base class: does not publish all devices of a large node, or not in order."""

    def devices(self) -> list[JsonObject]:
        found = super().devices()
        return found if len(found) < _LARGE else self.select_published(found)

    def select_published(self, devices: list[JsonObject]) -> list[JsonObject]:
        """Return the published devices in place of these."""
        raise NotImplementedError


class OneSlice(Mutant):
    """Puts all devices into one slice, however many there are."""

    check = "thousands.published"
    source = f"{_NRI}/pull/803"
    slice_size = 1_000_000


class GivesUp(_OnLargeNodes):
    """Publishes only the first devices if a slice cannot hold them all."""

    check = "thousands.published"
    source = f"{CPU}/pull/55 (exceeds the slice limit)"

    def select_published(self, devices: list[JsonObject]) -> list[JsonObject]:
        return [*devices[:50], *devices[-5:]]


class SmallSlices(Mutant):
    """Creates a separate slice for every few devices."""

    check = "thousands.packed"
    source = f"{CPU}/issues/5 (a slice for each NUMA node)"
    slice_size = 8


class Shuffled(_OnLargeNodes):
    """Publishes its devices in a random order that changes each time."""

    check = "thousands.quiet"
    source = f"{ROCM}/pull/74"

    def select_published(self, devices: list[JsonObject]) -> list[JsonObject]:
        self.turn = getattr(self, "turn", 0) + 1
        return [*devices[self.turn % 3 :], *devices[: self.turn % 3]]


class KnowsFirstSlice(Mutant):
    """Looks for the devices of a claim only in its first slice."""

    check = "thousands.prepared"
    source = f"{KUBERNETES}/issues/126837 (drivers with more devices than fit into a slice)"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        known = {one["name"] for one in self.contents()[0]["devices"]}
        for result in claim["status"]["allocation"]["devices"]["results"]:
            if result["driver"] == self.name and result["device"] not in known:
                raise Refused(f"unknown device {result['device']}")
        return super().ready(claim)


MUTANTS = (OneSlice, GivesUp, SmallSlices, Shuffled, KnowsFirstSlice)
