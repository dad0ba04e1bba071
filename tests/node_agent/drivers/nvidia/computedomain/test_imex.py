"""Options and gates that choose who runs the IMEX daemons. The messages are those of pkg/imex."""

import pytest
from dra_driverkit.errors import DriverConfigError
from dra_node_agent.drivers.nvidia.computedomain import devices
from dra_node_agent.drivers.nvidia.computedomain.imex import Imex, from_environment
from dra_node_agent.drivers.nvidia.gates import NvidiaGates

HOST = {"IMEX_MODE": "hostManaged"}
GATE = "HostManagedIMEXDaemon=true"


@pytest.mark.parametrize(
    ("gates", "environment", "managed"),
    [
        ("", {}, False),
        (GATE, {}, False),
        ("", {"IMEX_MODE": "driverManaged", "IMEX_ISOLATION": "domain"}, False),
        (GATE, HOST, True),
    ],
)
def test_the_imex_mode_depends_on_environment_and_feature_gates(
    gates: str, environment: dict[str, str], managed: bool
) -> None:
    found = Imex.parse(from_environment(environment), NvidiaGates.parse(gates))
    assert found == Imex(managed, "/etc/nvidia-imex/imex_ctrl.sock")


def test_the_socket_path_is_read_from_the_environment() -> None:
    environment = {**HOST, "IMEX_HOST_SOCKET_PATH": "/run/imex.sock"}
    assert Imex.parse(from_environment(environment), NvidiaGates.parse(GATE)).socket == "/run/imex.sock"


@pytest.mark.parametrize(
    ("gates", "environment", "message"),
    [
        ("", HOST, 'imex.mode="hostManaged" requires the HostManagedIMEXDaemon feature gate to be enabled'),
        (GATE, {"IMEX_MODE": "Host"}, 'unknown imex.mode "Host"'),
        (
            GATE,
            {**HOST, "IMEX_ISOLATION": "channel"},
            'imex.isolation="channel" is not supported yet: per-workload IMEX channel allocation is not implemented',
        ),
        ("", {"IMEX_ISOLATION": "x"}, 'unknown imex.isolation "x": must be "domain" or "channel"'),
    ],
)
def test_invalid_combinations_of_options_are_rejected(
    gates: str, environment: dict[str, str], message: str
) -> None:
    with pytest.raises(DriverConfigError) as raised:
        Imex.parse(from_environment(environment), NvidiaGates.parse(gates))
    assert str(raised.value) == f"imex configuration validation failed: {message}"


def test_no_device_for_daemons_is_published() -> None:
    def names(*, host_managed: bool) -> list[str]:
        (pool,) = devices.resources("node-0", host_managed=host_managed).pools.values()
        return [device.name for slice_ in pool.slices for device in slice_.devices]

    assert names(host_managed=True) == ["channel-0"]
    assert names(host_managed=False) == ["channel-0", "daemon-0"]
