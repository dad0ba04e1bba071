"""The node agent's HTTP endpoint that sets the load of simulated GPUs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from dra_shared.numerals import integer, is_digits

from dra_node_agent.nvml.system import NO_INSTANCE, Process

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from dra_node_agent.nvml.system import SimulatedGpu, SimulatedSystem

LOAD_ROUTE = "POST /simulated/nodes/{node}/gpus/{gpu}/load"

# The id of the process that holds the memory. No real process has this id.
_PID = 1 << 22
_NAME = "simulated"


class Load(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The load of a GPU from now on: utilization in %, and used memory (of a MIG device if instances are given)."""

    utilization: int | None = None
    memory_mib: int | None = msgspec.field(default=None, name="memoryMiB")
    gpu_instance: int = NO_INSTANCE
    compute_instance: int = NO_INSTANCE


_decoder = msgspec.json.Decoder(Load)


class LoadSetter:
    """Serves :data:`LOAD_ROUTE`. ``system`` returns a node's simulated GPUs, or None."""

    def __init__(self, system: "Callable[[str], SimulatedSystem | None]") -> None:
        self._system = system

    async def set(self, request: "Request") -> "Response":
        """Set the load in the request's body. Respond 204, or 404 or 400 with the reason."""
        from starlette.responses import PlainTextResponse, Response

        node, number = request.path_params["node"], request.path_params["gpu"]
        system = self._system(node)
        if system is None:
            return PlainTextResponse(f"node {node!r} has no simulated GPUs", status_code=404)
        if not is_digits(number) or integer(number) >= len(system.gpus):
            text = f"node {node!r} has no GPU {number!r}, only 0 to {len(system.gpus) - 1}"
            return PlainTextResponse(text, status_code=404)
        gpu = system.gpus[integer(number)]
        try:
            load = _decoder.decode(await request.body())
        except msgspec.DecodeError as error:
            return PlainTextResponse(f"cannot read the load: {error}", status_code=400)
        with system.lock:
            if problem := _problem(gpu, load):
                return PlainTextResponse(problem, status_code=400)
            _apply(gpu, load)
        return Response(status_code=204)


def _problem(gpu: "SimulatedGpu", load: Load) -> str | None:
    if load.utilization is not None and not 0 <= load.utilization <= 100:
        return f"utilization is 0 to 100, not {load.utilization}"
    most = gpu.model.memory_mib
    if gpu.mig_enabled:
        instance = gpu.instances.get(load.gpu_instance)
        if load.memory_mib is not None and (
            instance is None or load.compute_instance not in instance.compute_instances
        ):
            return f"GPU {gpu.index} is in MIG mode: gpuInstance and computeInstance say whose memory"
        most = most if instance is None else instance.profile.memory_mib
    if load.memory_mib is not None and not 0 <= load.memory_mib <= most:
        return f"memoryMiB is 0 to {most}, not {load.memory_mib}"
    return None


def _apply(gpu: "SimulatedGpu", load: Load) -> None:
    if load.utilization is not None:
        gpu.utilization = load.utilization
    if load.memory_mib is None:
        return
    place = (load.gpu_instance, load.compute_instance)
    gpu.processes = [
        one for one in gpu.processes if one.pid != _PID or (one.gpu_instance, one.compute_instance) != place
    ]
    if load.memory_mib:
        gpu.processes.append(Process(_PID, _NAME, load.memory_mib, *place))
