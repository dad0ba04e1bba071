"""A kubelet's endpoints on a port, with a running pod."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dra_node_agent.kubelet.server import KubeletServer
from dra_node_agent.kubelet.websocket import WebSocket
from dra_shared.service import HealthServer

from tests.support.kubelet.bench import Bench, pod
from tests.support.waiting import until

#: A web server on port 8080, as a pod's command.
WEB_SERVER = "mkdir /www; echo hello > /www/index.html; httpd -f -p 8080 -h /www"


@asynccontextmanager
async def serve_kubelet(command: str) -> AsyncIterator[tuple[Bench, int]]:
    """Run a kubelet whose pod runs a shell command, and yield it with its port."""
    async with Bench() as bench:
        endpoints = KubeletServer([bench.kubelet], bench.clock)
        server = HealthServer(
            "127.0.0.1",
            0,
            {},
            endpoints.routes(),
            lambda config, server_state, app_state: WebSocket(endpoints.stream, server_state),
        )
        async with server:
            bench.create(pod("pod", {"name": "main", "image": "x", "command": ["sh", "-c", command]}))
            await until(lambda: bench.phase() == "Running")
            yield bench, server.port
