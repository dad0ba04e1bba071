"""The node agent's HTTP endpoint that stops and starts the IMEX daemon which a simulated machine itself runs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from dra_node_agent.nvml.system import SimulatedSystem

IMEX_ROUTE = "POST /simulated/nodes/{node}/imex"


class ImexDaemon(msgspec.Struct, forbid_unknown_fields=True):
    """The desired state of the daemon."""

    ready: bool


_decoder = msgspec.json.Decoder(ImexDaemon)


class ImexSetter:
    """Serves :data:`IMEX_ROUTE`. ``system`` returns a node's simulated machine, or None."""

    def __init__(self, system: "Callable[[str], SimulatedSystem | None]") -> None:
        self._system = system

    async def set(self, request: "Request") -> "Response":
        """Apply the request's body. Respond 204, or 404 or 400 with the reason."""
        from starlette.responses import PlainTextResponse, Response

        node = request.path_params["node"]
        system = self._system(node)
        if system is None:
            return PlainTextResponse(f"node {node!r} has no simulated GPUs", status_code=404)
        try:
            system.imex_ready = _decoder.decode(await request.body()).ready
        except msgspec.DecodeError as error:
            return PlainTextResponse(f"cannot read how the daemon is to be: {error}", status_code=400)
        system.notify_change()
        return Response(status_code=204)
