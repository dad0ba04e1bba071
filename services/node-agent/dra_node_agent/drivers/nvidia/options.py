"""The NVIDIA driver's own options: flags of its kubelet plugin, and its container's environment in the chart."""

from collections.abc import Mapping
from dataclasses import dataclass

from dra_node_agent.drivers.base import DriverOption
from dra_node_agent.drivers.nvidia.gates import LAB_DEFAULTS, UPSTREAM_DEFAULTS, NvidiaGates

_GATES, _SHARES = "nvidia-gates", "consumable-shares"

OPTIONS = (
    DriverOption(_GATES, "feature gates of the NVIDIA driver"),
    DriverOption(_SHARES, "the NVIDIA driver's option of that name"),
)


@dataclass(frozen=True)
class NvidiaOptions:
    """The configuration of the driver.

    Args:
        shares: the driver's ``--consumable-shares``, see :class:`Announcer`.
        ignored_xids: XIDs that do not taint devices, in addition to the application errors.
    """

    gates: NvidiaGates
    shares: str = ""
    ignored_xids: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, values: Mapping[str, str]) -> "NvidiaOptions":
        """Parse the values of the options. An absent option has the default for simulated nodes.

        Raises:
            DriverConfigError: a gate is unknown, or two exclude each other.
        """
        return cls(NvidiaGates.parse(values.get(_GATES) or LAB_DEFAULTS), values.get(_SHARES, ""))


def from_environment(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the values that the chart sets on the driver's container. Gates are off unless the chart enables them."""
    parts = (part.strip() for part in environment.get("FEATURE_GATES", "").split(","))
    return {
        _GATES: ",".join(filter(None, parts)) or UPSTREAM_DEFAULTS,
        _SHARES: environment.get("CONSUMABLE_SHARES", ""),
    }
