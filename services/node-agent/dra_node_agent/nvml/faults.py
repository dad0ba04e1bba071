"""The node agent's HTTP endpoint that causes faults of simulated GPUs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from dra_shared.numerals import integer, is_digits

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from dra_node_agent.nvml.system import SimulatedSystem

FAULTS_ROUTE = "POST /simulated/nodes/{node}/gpus/{gpu}/faults"

_NO_INSTANCE = 0xFFFFFFFF


class Fault(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A fault of a GPU: an XID (of a MIG device if instances are given), ECC errors, its loss, or several of these."""

    xid: int | None = None
    gpu_instance: int = _NO_INSTANCE
    compute_instance: int = _NO_INSTANCE
    corrected_ecc: int = 0
    uncorrected_ecc: int = 0
    lost: bool = False


_decoder = msgspec.json.Decoder(Fault)


class FaultInjector:
    """Serves :data:`FAULTS_ROUTE`. ``system`` returns a node's simulated GPUs, or None."""

    def __init__(self, system: "Callable[[str], SimulatedSystem | None]") -> None:
        self._system = system

    async def inject(self, request: "Request") -> "Response":
        """Cause the fault in the request's body. Respond 204, or 404 or 400 with the reason."""
        from starlette.responses import PlainTextResponse, Response

        node, gpu = request.path_params["node"], request.path_params["gpu"]
        system = self._system(node)
        if system is None:
            return PlainTextResponse(f"node {node!r} has no simulated GPUs", status_code=404)
        if not is_digits(gpu) or integer(gpu) >= len(system.gpus):
            text = f"node {node!r} has no GPU {gpu!r}, only 0 to {len(system.gpus) - 1}"
            return PlainTextResponse(text, status_code=404)
        try:
            fault = _decoder.decode(await request.body())
        except msgspec.DecodeError as error:
            return PlainTextResponse(f"cannot read the fault: {error}", status_code=400)
        if fault.xid is not None:
            system.inject_xid(integer(gpu), fault.xid, fault.gpu_instance, fault.compute_instance)
        if fault.corrected_ecc or fault.uncorrected_ecc:
            system.inject_ecc(integer(gpu), corrected=fault.corrected_ecc, uncorrected=fault.uncorrected_ecc)
        if fault.lost:
            system.lose(integer(gpu))
        return Response(status_code=204)
