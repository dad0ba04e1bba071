"""Bugs that appear with only some versions of Kubernetes."""

from collections.abc import Sequence
from typing import Any, ClassVar

from dra_conformance.world import default_rules
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, V1_37

from tests.driver_conformance.mutants.mutant import CPU, EXAMPLE, KUBERNETES, Mutant


class NewHealthAlone(Mutant):
    """Serves health only in v1, which kubelets before 1.37 do not know."""

    check = "health.service"
    source = f"{KUBERNETES}/pull/139477"
    version = V1_36

    def services(self) -> Sequence[str]:
        return [one for one in super().services() if one != "v1alpha1.DRAResourceHealth"]


class OldHealthAlone(Mutant):
    """Serves health only in v1alpha1."""

    check = "health.newest-service"
    source = f"{KUBERNETES}/issues/139475"
    version = V1_37

    def services(self) -> Sequence[str]:
        return [one for one in super().services() if one != "v1.DRAResourceHealth"]


class AlphaMetadata(Mutant):
    """Writes metadata only in v1alpha1."""

    check = "metadata.newest-version"
    source = f"{KUBERNETES}/issues/138994"
    version = V1_37

    def versions(self, document: JsonObject) -> list[JsonObject]:
        return super().versions(document)[1:]


class BetaMetadata(Mutant):
    """Writes metadata only in v1beta1, which programs of 1.36 cannot read."""

    check = "metadata.stream"
    source = f"{KUBERNETES}/issues/138994 (both versions for a smooth upgrade)"
    version = V1_36

    def versions(self, document: JsonObject) -> list[JsonObject]:
        return super().versions(document)[:1]


class OlderObjectStays(Mutant):
    """Updates only the newer object of the metadata."""

    check = "metadata.equivalent"
    source = "https://github.com/kubernetes/website/pull/54716 (all objects are semantically equivalent)"

    def versions(self, document: JsonObject) -> list[JsonObject]:
        newer, older = super().versions(document)
        return [{**newer, "metadata": {**newer["metadata"], "generation": 2}}, older]


class UnequalParts(Mutant):
    """Publishes two partitions of one type that consume different amounts."""

    check = "counters.types"
    source = "https://github.com/kubernetes/enhancements/issues/5677 (PartitionCostMismatch)"
    version = V1_37

    def devices(self) -> list[JsonObject]:
        found = super().devices()
        part = next(one for one in found if one["name"] == "part-1")
        part["consumesCounters"][0]["counters"]["units"]["value"] = "3"
        return found


class CountsWhole(Mutant):
    """Publishes a whole device that consumes the node's memory in proportion to its capacity."""

    check = "allocatable.divisible"
    source = "https://github.com/kubernetes/enhancements/issues/5517 (ConsumedCapacity is nil)"

    def devices(self) -> list[JsonObject]:
        found = super().devices()
        found[0] = {**found[0], "capacity": {"memory": {"value": "8Gi"}}, **self.node_resources()}
        return found


class FieldOfYesterday(Mutant):
    """Writes the field of 1.36 on 1.37."""

    check = "slices.known-fields"
    source = f"{EXAMPLE}/pull/262"
    version = V1_37

    def node_resources(self) -> JsonObject:
        return {"nodeAllocatableResourceMappings": {"memory": {"capacityKey": "memory"}}}


class RoleOfYesterday(Mutant):
    """Uses a role of before 1.36, which grants the status of claims and not the driver's part of it."""

    check = "permissions.status-of-its-node"
    source = f"{CPU}/pull/105; https://github.com/cilium/cilium/pull/48911"
    version = V1_36
    rules: ClassVar[Sequence[Any]] = [
        rule for rule in default_rules() if rule["resources"] != ["resourceclaims/driver"]
    ]


MUTANTS = (
    NewHealthAlone,
    OldHealthAlone,
    AlphaMetadata,
    BetaMetadata,
    OlderObjectStays,
    UnequalParts,
    CountsWhole,
    FieldOfYesterday,
    RoleOfYesterday,
)
