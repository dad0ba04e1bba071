"""HTTP, TCP and gRPC probes over the network (pkg/probe)."""

import asyncio

import httpx
from dra_shared.api.container import Container, Probe
from dra_shared.numerals import integer, is_digits
from dra_shared.version import DEFAULT
from grpc import aio

from dra_node_agent.runtime.base import BAD_STATUS

_HEALTH_CHECK = "/grpc.health.v1.Health/Check"
_SERVING = 1


async def probe_network(probe: Probe, address: str, container: Container | None = None) -> tuple[bool, str]:
    """Run the probe against ``address``. Return whether it succeeds, and the output to show if it does not."""
    timeout = float(probe.timeout_seconds or 1)
    try:
        if probe.http_get is not None:
            action = probe.http_get
            scheme = (action.scheme or "HTTP").lower()
            url = f"{scheme}://{action.host or address}:{_port(action.port, container)}{action.path or '/'}"
            headers = {header.name: header.value for header in action.http_headers}
            headers.setdefault("User-Agent", f"kube-probe/{DEFAULT}")
            async with httpx.AsyncClient(verify=False, trust_env=False, timeout=timeout) as client:
                response = await client.get(url, headers=headers, follow_redirects=True)
            if 200 <= response.status_code < 400:
                return True, ""
            return False, f"{BAD_STATUS}{response.status_code}"
        if probe.tcp_socket is not None:
            tcp = probe.tcp_socket
            async with asyncio.timeout(timeout):
                _, writer = await asyncio.open_connection(tcp.host or address, _port(tcp.port, container))
            writer.close()
            return True, ""
        if probe.grpc is not None:
            return await _grpc(f"{address}:{probe.grpc.port}", probe.grpc.service, timeout)
    except (httpx.HTTPError, OSError, TimeoutError, ValueError) as error:
        return False, str(error) or type(error).__name__
    return True, ""


def _port(port: int | str, container: Container | None) -> int:
    if isinstance(port, int):
        return port
    if is_digits(port):
        return integer(port)
    for known in container.ports if container is not None else ():
        if known.name == port:
            return known.container_port
    raise ValueError(f"couldn't find port: {port}")


async def _grpc(target: str, service: str, timeout: float) -> tuple[bool, str]:
    name = service.encode()
    # The bytes of HealthCheckRequest{service = 1} and HealthCheckResponse{status = 1}.
    request = b"\x0a" + bytes([len(name)]) + name if name else b""
    async with aio.insecure_channel(target, options=(("grpc.enable_http_proxy", 0),)) as channel:
        call = channel.unary_unary(_HEALTH_CHECK)
        try:
            response = await call(request, timeout=timeout)
        except aio.AioRpcError as error:
            return False, f"error: health rpc probe failed: {error.details()}"
    status = response[1] if len(response) == 2 else 0
    return status == _SERVING, f"service unhealthy (responded with {status})"
