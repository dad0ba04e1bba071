"""pods/log: a container's log, read from its node's agent."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from dra_shared.jsontypes import JsonObject

from dra_apiserver.api import Api
from dra_apiserver.errors import GroupResource, StatusError, bad_request, internal, not_found, server_error
from dra_apiserver.http import Request
from dra_apiserver.kinds.connect.logoptions import log_options
from dra_apiserver.nodeaccess import NodeAccess, dial_problem
from dra_apiserver.target import Target

_CONNECT_TIMEOUT = 5.0
_ADDRESS_TYPES = ("InternalIP", "ExternalIP", "Hostname")


def choose_container(pod: JsonObject, wanted: str) -> str:
    """Return the requested container, by name or because it is the only one.

    Raises:
        StatusError: 400, the name is missing or wrong.
    """
    spec, name = pod["spec"], pod["metadata"]["name"]
    names = [item["name"] for item in spec.get("containers") or []]
    starting = [item["name"] for item in spec.get("initContainers") or []]
    passing = [item["name"] for item in spec.get("ephemeralContainers") or []]
    if not wanted:
        annotated = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
        if annotated in names:
            return str(annotated)
        if len(names) == 1 and not starting:
            return str(names[0])
        if len(names) == 1:
            listed = f"[{' '.join(names)}] or one of the init containers: [{' '.join(starting)}]"
        else:
            listed = f"[{' '.join(names)}]"
            if starting:
                listed += f" or one of the init containers: [{' '.join(starting)}]"
        raise bad_request(f"a container name must be specified for pod {name}, choose one of: {listed}")
    if wanted not in {*names, *starting, *passing}:
        raise bad_request(f"container {wanted} is not valid for pod {name}")
    return wanted


def node_address(api: Api, host: str) -> tuple[str, int]:
    """Return the address of the agent of the node ``host``.

    Raises:
        StatusError: 404, the node does not exist; 500, it has no address, or an invalid one.
    """
    node = api.store.get(("", "nodes"), host)
    if node is None:
        # Upstream looks for the node with the request's resource.
        raise not_found(GroupResource("", "pods"), host)
    status = node.object().get("status") or {}
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or 0
    found = {item.get("type"): item.get("address") for item in status.get("addresses") or []}
    for kind in _ADDRESS_TYPES:
        if found.get(kind):
            if problem := dial_problem(found[kind], port):
                raise server_error(f"error dialing backend: {problem}")
            return found[kind], port
    known = " ".join(f"{{{kind} {address}}}" for kind, address in found.items())
    raise server_error(f"no preferred addresses found; known addresses: [{known}]")


async def logs(api: Api, request: Request, target: Target) -> None:
    """Stream the log; with follow, until the container or the client ends it."""
    passed = log_options(request, target.name)
    record = api.store.get(target.resource, target.key)
    if record is None:
        raise not_found(target.qualified_resource, target.name)
    pod = record.object()
    container = choose_container(pod, request.query.get("container", ""))
    host = pod["spec"].get("nodeName")
    if not host:
        # Upstream returns an empty log for a pod without a node.
        await request.respond(200, b"", "text/plain")
        return
    address, port = node_address(api, host)
    path = f"/containerLogs/{target.namespace}/{target.name}/{container}"
    access = api.config.nodes
    url = f"{access.scheme}://{f'[{address}]' if ':' in address else address}:{port}{path}"
    if passed:
        url += f"?{urlencode(passed)}"
    await _forward(request, url, target.name, access)


def _refusal(code: int, text: str, pod: str) -> StatusError:
    """Return the client's error for an error of the kubelet (genericrest's GenericHttpResponseChecker)."""
    if code == 400:
        return bad_request(text)
    if code == 404:
        named = GroupResource("", "pods/log")
        message = f"the server could not find the requested resource ( {named} {pod})"
        return StatusError(404, "NotFound", message, {"name": pod, "kind": named.plural})
    return internal(text or f"the node answered {code}")


async def _forward(request: Request, url: str, pod: str, access: NodeAccess) -> None:
    import httpx

    started = False
    timeout = httpx.Timeout(None, connect=_CONNECT_TIMEOUT)
    try:
        async with (
            httpx.AsyncClient(timeout=timeout, trust_env=False, verify=access.context() or False) as client,
            client.stream("GET", url, headers=access.headers) as answer,
        ):
            if answer.status_code != 200:
                text = (await answer.aread()).decode(errors="replace").strip()
                raise _refusal(answer.status_code, text, pod)
            await request.start_stream("text/plain")
            started = True
            await request.stream(b"")
            await request.copy_until_gone(_copy(request, answer))
    except httpx.HTTPError as error:
        if not started:
            raise server_error(f'Get "{url}": {error or type(error).__name__}') from None
    await request.stream(b"", more=False)


async def _copy(request: Request, answer: Any) -> None:
    async for chunk in answer.aiter_raw():
        await request.stream(chunk)
