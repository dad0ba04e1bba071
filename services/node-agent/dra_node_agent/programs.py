"""The programs that a node adds to its simulated containers: nvidia-smi, drivers and daemons."""

from collections.abc import Mapping

from dra_shared.clock import Clock

from dra_node_agent.drivers.base import Machines
from dra_node_agent.imexdaemons import ImexDaemons
from dra_node_agent.injecteddevices import InjectedDevices
from dra_node_agent.nvml import smi
from dra_node_agent.poddrivers import PodDrivers
from dra_node_agent.runtime.container import Injected
from dra_node_agent.runtime.shell.world import Process, Program


class NodePrograms:
    """The programs of one node's containers. They depend on what is injected into each container."""

    def __init__(
        self,
        node_name: str,
        gpus: Machines | None,
        clock: Clock,
        drivers: PodDrivers,
        daemons: ImexDaemons,
        devices: InjectedDevices,
    ) -> None:
        self._pod_drivers = drivers
        self._daemons = daemons
        self._devices = devices
        self._node_name = node_name
        self._gpus = gpus
        self._clock = clock

    def __call__(self, injected: Injected) -> Mapping[str, Program]:
        system = None if self._gpus is None else self._gpus.system(self._node_name)

        async def nvidia_smi(process: Process) -> int:
            if system is None or not smi.is_installed(injected.edits):
                process.err(f"{process.shell.name}: {process.argv[0]}: command not found\n")
                return 127
            args, pause = smi.split_loop(process.argv[1:])
            while True:
                output = smi.run_smi(args, injected.edits, system, self._clock.now())
                (process.complain if "not simulated" in output.text else process.out)(output.text)
                if pause is None or output.exit_code:
                    return output.exit_code
                await process.shell.world.sleep(pause)

        return {
            "nvidia-smi": nvidia_smi,
            **self._devices.programs(injected.cdi_device_ids),
            **self._pod_drivers.programs(),
            **self._daemons.programs(),
        }
