"""The NVIDIA driver's own feature gates (pkg/featuregates of its repository)."""

from collections.abc import Mapping

from dra_driverkit.errors import DriverConfigError

TIME_SLICING = "TimeSlicingSettings"
MPS = "MPSSupport"
PASSTHROUGH = "PassthroughSupport"
DYNAMIC_MIG = "DynamicMIG"
HEALTH_CHECK = "NVMLDeviceHealthCheck"
DEVICE_METADATA = "DeviceMetadata"
LIST_ATTRIBUTES = "DRAListTypeAttributes"
CONSUMABLE_SHARES = "ConsumableShares"
FABRIC_PARTITIONS = "FabricManagerPartitioning"
HOST_IMEX = "HostManagedIMEXDaemon"
DNS_NAMES = "IMEXDaemonsWithDNSNames"
CLIQUES = "ComputeDomainCliques"

# Upstream's defaults.
DEFAULTS: Mapping[str, bool] = {
    TIME_SLICING: False,
    MPS: False,
    PASSTHROUGH: False,
    DYNAMIC_MIG: False,
    HEALTH_CHECK: False,
    DEVICE_METADATA: False,
    LIST_ATTRIBUTES: False,
    CONSUMABLE_SHARES: False,
    FABRIC_PARTITIONS: False,
    # The following gates concern compute domains, which have their own driver.
    HOST_IMEX: False,
    DNS_NAMES: True,
    CLIQUES: True,
    "CrashOnNVLinkFabricErrors": True,
}

# Gates of upstream's logging library, which have no effect here.
_LOGGING: Mapping[str, bool] = {"LoggingAlphaOptions": False, "LoggingBetaOptions": True}
# NVIDIA's programs enable it explicitly, so the gates of a stage do not disable it.
_CONTEXTUAL = "ContextualLogging"
# Gates that set all gates of one stage that are not set themselves. Alpha gates are off by default, beta gates
# on.
_STAGES: Mapping[str, bool] = {"AllAlpha": False, "AllBeta": True}

# The gates of a simulated node: those that the driver's quickstart needs.
LAB_DEFAULTS = f"{TIME_SLICING}=true,{MPS}=true,{HEALTH_CHECK}=true"

# The gates of the driver if its pod does not set any.
UPSTREAM_DEFAULTS = ",".join(f"{name}={str(on).lower()}" for name, on in DEFAULTS.items())

_EXCLUSIVE = (
    (DYNAMIC_MIG, PASSTHROUGH),
    (DYNAMIC_MIG, HEALTH_CHECK),
    (DYNAMIC_MIG, MPS),
    (PASSTHROUGH, HEALTH_CHECK),
)


class NvidiaGates:
    """The enabled gates.

    Raises:
        DriverConfigError: a gate is unknown, or two exclude each other.
    """

    def __init__(self, gates: Mapping[str, bool] | None = None) -> None:
        known = {**DEFAULTS, **_LOGGING}
        named = dict(gates or {})
        self._gates = {**known, _CONTEXTUAL: True, **dict.fromkeys(_STAGES, False)}
        for name, on in named.items():
            if name not in self._gates:
                raise DriverConfigError(
                    f"unrecognized feature gate: {name} (known: {', '.join(sorted(DEFAULTS))})"
                )
            self._gates[name] = on
            if name in _STAGES:
                self._gates |= {
                    other: on
                    for other, default in known.items()
                    if default is _STAGES[name] and other not in named
                }
        if self._gates[CLIQUES] and not self._gates[DNS_NAMES]:
            raise DriverConfigError(f"feature gate {CLIQUES} requires {DNS_NAMES} to also be enabled")
        for first, second in _EXCLUSIVE:
            if self._gates[first] and self._gates[second]:
                raise DriverConfigError(f"feature gate {first} is currently mutually exclusive with {second}")
        if self._gates[DEVICE_METADATA] and not self._gates[PASSTHROUGH]:
            raise DriverConfigError(
                f"feature gate {DEVICE_METADATA} requires {PASSTHROUGH} to also be enabled"
            )

    @classmethod
    def parse(cls, text: str) -> "NvidiaGates":
        """Parse ``Name=true,Other=false``. Raises like the constructor."""
        gates: dict[str, bool] = {}
        for entry in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = entry.partition("=")
            if not equals or value.lower() not in ("true", "false"):
                raise DriverConfigError(f"feature gate {entry!r}: want Name=true or Name=false")
            gates[name] = value.lower() == "true"
        return cls(gates)

    def text(self) -> str:
        """Return all gates as NVIDIA's programs pass them on: sorted, each followed by a comma."""
        return "".join(f"{name}={str(on).lower()}," for name, on in sorted(self._gates.items()))

    def is_enabled(self, name: str) -> bool:
        return self._gates[name]
