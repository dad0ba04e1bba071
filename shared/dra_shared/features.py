"""Feature gates, with their Kubernetes 1.36 defaults."""

from collections.abc import Iterator, Mapping

# pkg/features/kube_features.go at 1.36; gates that dralab never asks about are accepted without effect.
DEFAULTS: Mapping[str, bool] = {
    "DynamicResourceAllocation": True,
    "DRAAdminAccess": True,
    "DRAConsumableCapacity": True,
    "DRADeviceBindingConditions": True,
    "DRADeviceTaintRules": False,
    "DRADeviceTaints": True,
    "DRAExtendedResource": True,
    "DRAListTypeAttributes": False,
    "DRANodeAllocatableResources": False,
    "DRAPartitionableDevices": True,
    "DRAPrioritizedList": True,
    "DRAResourceClaimDeviceStatus": True,
    "DRAResourceClaimGranularStatusAuthorization": True,
    "DRAResourcePoolStatus": False,
    "DRASchedulerFilterTimeout": True,
    "DRAWorkloadResourceClaims": False,
    "GangScheduling": False,
    "GenericWorkload": False,
    "NodeDeclaredFeatures": True,
    "NominatedNodeNameForExpectation": True,
    "ResourceHealthStatus": True,
    "ResourceHealthStatusMessage": True,
}

_LOCKED = {"DynamicResourceAllocation", "DRAAdminAccess"}


class FeatureGates:
    """Which features are on. Immutable."""

    def __init__(self, **overrides: bool) -> None:
        self._gates = {**DEFAULTS, **overrides}
        self._hash = hash(frozenset(self._gates.items()))

    @classmethod
    def parse(cls, text: str) -> "FeatureGates":
        """Gates from ``A=true,B=false``, as Kubernetes' ``--feature-gates`` takes them.

        ``AllAlpha`` and ``AllBeta`` are not known.

        Raises:
            ValueError: an entry is malformed, or turns a locked gate off.
        """
        overrides: dict[str, bool] = {}
        for entry in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = entry.partition("=")
            if not equals:
                raise ValueError(f"missing bool value for {name}")
            if value.lower() not in ("true", "false", "1", "0", "t", "f"):
                raise ValueError(f"invalid value of {name}={value}, want true or false")
            on = value.lower() in ("true", "1", "t")
            if name in _LOCKED and not on:
                raise ValueError(f"cannot set feature gate {name} to false, feature is locked to true")
            overrides[name] = on
        return cls(**overrides)

    def enabled(self, name: str) -> bool:
        """Whether the gate is on; one that is not known is off."""
        return self._gates.get(name, False)

    def __iter__(self) -> Iterator[str]:
        """The names of the gates that are on."""
        return (name for name, on in self._gates.items() if on)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureGates) and self._gates == other._gates

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return ",".join(f"{name}={str(on).lower()}" for name, on in sorted(self._gates.items()))
