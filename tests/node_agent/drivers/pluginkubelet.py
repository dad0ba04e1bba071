"""The kubelet's side of the device plugin protocol, as seen by a plugin."""

from pathlib import Path
from typing import Any, Self

from dra_driverkit.proto import deviceplugin_v1beta1_pb2 as pb
from dra_driverkit.proto import rpc
from grpc import aio

CHANNEL = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))


class PluginKubelet:
    """Accepts registrations on ``kubelet.sock``."""

    def __init__(self, root: Path) -> None:
        self.directory = root / "device-plugins"
        self.requests: list[pb.RegisterRequest] = []
        self._server: aio.Server | None = None

    async def __aenter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._server = aio.server(options=(("grpc.so_reuseport", 0),))
        rpc.serve(pb, "Registration", self, self._server)
        socket = self.directory / "kubelet.sock"
        socket.unlink(missing_ok=True)
        self._server.add_insecure_port(f"unix:{socket}")
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            await self._server.stop(None)

    async def Register(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        return pb.Empty()

    def channel(self, endpoint: str) -> aio.Channel:
        """Connect to a plugin's socket."""
        return aio.insecure_channel(f"unix:{self.directory / endpoint}", options=CHANNEL)
