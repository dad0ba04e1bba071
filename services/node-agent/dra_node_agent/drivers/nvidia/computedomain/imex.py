"""Management of a node's IMEX daemons, by the driver or by the administrator (pkg/imex of dra-driver-nvidia-gpu)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from dra_driverkit.errors import DriverConfigError

from dra_node_agent.drivers.base import DriverOption
from dra_node_agent.drivers.nvidia.gates import HOST_IMEX, NvidiaGates

_MODE, _ISOLATION, _SOCKET = "imex-mode", "imex-isolation", "imex-host-socket-path"
_DRIVER_MANAGED, _HOST_MANAGED = "driverManaged", "hostManaged"
_DOMAIN, _CHANNEL = "domain", "channel"
_DEFAULT_SOCKET = "/etc/nvidia-imex/imex_ctrl.sock"

OPTIONS = (DriverOption(_MODE, "NVIDIA's driver for compute domains: driverManaged or hostManaged"),)


@dataclass(frozen=True)
class Imex:
    """The IMEX options of the driver.

    Args:
        host_managed: True if the machine has its own IMEX daemon. The driver then starts none, and checks that
            daemon before it prepares a channel.
        socket: the socket of that daemon.
    """

    host_managed: bool = False
    socket: str = _DEFAULT_SOCKET

    @classmethod
    def parse(cls, values: Mapping[str, str], gates: NvidiaGates) -> "Imex":
        """Parse the values of the options.

        Raises:
            DriverConfigError: a value is unknown to the driver, or the gate is off.
        """
        mode = values.get(_MODE) or _DRIVER_MANAGED
        error = _mode_error(mode, gates) or _isolation_error(values.get(_ISOLATION) or _DOMAIN)
        if error:
            raise DriverConfigError(f"imex configuration validation failed: {error}")
        return cls(mode == _HOST_MANAGED, values.get(_SOCKET) or _DEFAULT_SOCKET)


def from_environment(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the values that the chart sets on the driver's container."""
    return {
        _MODE: environment.get("IMEX_MODE", ""),
        _ISOLATION: environment.get("IMEX_ISOLATION", ""),
        _SOCKET: environment.get("IMEX_HOST_SOCKET_PATH", ""),
    }


def _mode_error(mode: str, gates: NvidiaGates) -> str:
    if mode not in (_DRIVER_MANAGED, _HOST_MANAGED):
        return f"unknown imex.mode {json.dumps(mode)}"
    if mode == _HOST_MANAGED and not gates.is_enabled(HOST_IMEX):
        return f'imex.mode="{_HOST_MANAGED}" requires the {HOST_IMEX} feature gate to be enabled'
    return ""


def _isolation_error(isolation: str) -> str:
    if isolation == _DOMAIN:
        return ""
    if isolation == _CHANNEL:
        return (
            f'imex.isolation="{_CHANNEL}" is not supported yet: '
            "per-workload IMEX channel allocation is not implemented"
        )
    return f'unknown imex.isolation {json.dumps(isolation)}: must be "{_DOMAIN}" or "{_CHANNEL}"'
