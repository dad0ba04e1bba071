"""Wait until the nodes of a new cluster accept pods."""

import asyncio

import httpx
from dra_shared.api.node import Node
from dra_shared.api.resources import NODES
from dra_shared.client.errors import ApiError
from dra_shared.client.rest import Client

# Admission adds this taint to a new node. The node lifecycle controller removes it once the node is ready.
_NOT_READY = "node.kubernetes.io/not-ready"
_TIMEOUT = 10.0
_EVERY = 0.05
# Large fleets: nodes register in no fixed order, so a sample of this size is enough.
_SAMPLE = 500


async def wait_for_schedulable_nodes(client: Client) -> None:
    """Wait until no ready node has the not-ready taint, or until ten seconds have passed."""
    try:
        async with asyncio.timeout(_TIMEOUT):
            while True:
                nodes = (await client.list(NODES, limit=_SAMPLE)).items
                if not any(map(_is_ready_but_tainted, nodes)):
                    return
                await asyncio.sleep(_EVERY)
    except (ApiError, httpx.HTTPError, OSError, TimeoutError):
        return


def _is_ready_but_tainted(node: Node) -> bool:
    ready = any(one.type == "Ready" and one.status == "True" for one in node.status.conditions)
    return ready and any(taint.key == _NOT_READY for taint in node.spec.taints)
