"""Faults of nodes, executed by the node's agent at the address and port of its Node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from dra_shared.faults.places import PATH

from dra_apiserver.api import Api
from dra_apiserver.errors import GroupResource, StatusError, bad_request, not_found, server_error
from dra_apiserver.nodeaccess import dial_problem

_NODES = ("", "nodes")
_TIMEOUT = 30.0


async def strike_node(api: Api, node: str, fault: Mapping[str, Any]) -> tuple[str, int]:
    """Begin a fault at the node's agent. Return the agent's address and the fault's number there.

    The Node may be deleted before the fault ends.

    Raises:
        StatusError: 404, the node does not exist; 400, its agent does not know the fault or device; 500, the
        agent does not respond.
    """
    agent = _agent(api, node)
    begun = await _ask(api, agent, "POST", body=msgspec.json.encode(fault))
    return agent, begun.id


async def count_of_node(api: Api, agent: str, number: int) -> int | None:
    """Return the number of calls or writes that an agent's fault affected; None if unknown, or if the agent does
    not respond.
    """
    try:
        return (await _ask(api, agent, "GET", f"/{number}")).met
    except StatusError:
        return None


async def end_of_node(api: Api, agent: str, number: int) -> None:
    """End a fault at its agent.

    Raises:
        StatusError: the agent does not respond.
    """
    await _ask(api, agent, "DELETE", f"/{number}")


async def clear_nodes(api: Api, agents: Iterable[str]) -> None:
    """End all faults at these agents.

    Raises:
        StatusError: an agent does not respond.
    """
    for agent in sorted(agents):
        await _ask(api, agent, "DELETE")


class _Answer(msgspec.Struct):
    """The response of an agent, with the fields that any of its responses may have."""

    id: int = 0
    met: int | None = None
    message: str = ""


_decode = msgspec.json.Decoder(_Answer).decode


async def _ask(api: Api, agent: str, method: str, path: str = "", body: bytes = b"") -> _Answer:
    import httpx

    access = api.config.nodes
    url = f"{agent}{PATH}{path}"
    try:
        async with httpx.AsyncClient(
            timeout=_TIMEOUT, trust_env=False, verify=access.context() or False
        ) as client:
            answer = await client.request(method, url, content=body, headers=access.headers)
    except httpx.HTTPError as error:
        raise server_error(f'{method} "{url}": {error or type(error).__name__}') from None
    if answer.status_code >= 300 and answer.status_code not in (400, 404):
        raise StatusError(500, "InternalError", f"{agent} answered {answer.status_code}: {answer.text}")
    try:
        found = _decode(answer.content)
    except msgspec.DecodeError as error:
        raise server_error(f'{method} "{url}": cannot read the answer: {error}') from None
    if answer.status_code == 400:
        raise bad_request(found.message)
    if answer.status_code == 404:
        raise StatusError(404, "NotFound", found.message)
    return found


def _agent(api: Api, node: str) -> str:
    """Return the address of the node's agent.

    Raises:
        StatusError: 404, the node does not exist; 500, its address is invalid.
    """
    record = api.store.get(_NODES, node)
    if record is None:
        raise not_found(GroupResource("", "nodes"), node)
    status = record.object().get("status") or {}
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or 0
    addresses = [one["address"] for one in status.get("addresses") or [] if one.get("type") == "InternalIP"]
    host = addresses[0] if addresses else node
    if problem := dial_problem(host, port):
        raise server_error(f"the agent of node {node} cannot be asked: {problem}")
    return f"{api.config.nodes.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
