"""Fetch samples over HTTP from `/metrics/resource` of the nodes' kubelets."""

from __future__ import annotations

import functools

from dra_shared.log import logger

from dra_apiserver.api import Api
from dra_apiserver.errors import StatusError
from dra_apiserver.kinds.connect.locations import NODE_HEADER
from dra_apiserver.kinds.connect.logs import node_address
from dra_apiserver.kinds.metrics.samples import Sample, parse

_TIMEOUT = 10.0

_log = logger(__name__)


class Kubelets:
    """The kubelets of the nodes in the store."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def sample(self, node: str) -> Sample | None:
        """Return a sample from the node's kubelet; None if it can't be reached, or its response is invalid."""
        import httpx

        api = self._api
        try:
            host, port = node_address(api, node)
            access = api.config.nodes
            headers = [(NODE_HEADER, node.encode()), *access.headers]
            url = f"{access.scheme}://{f'[{host}]' if ':' in host else host}:{port}/metrics/resource"
            # Without TLS, no certificates need to be loaded or verified.
            verify = access.context() or False
            async with httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False, verify=verify) as client:
                answer = await client.get(url, headers=headers)
                answer.raise_for_status()
            work = functools.partial(parse, answer.text, api.clock.now().timestamp())
            return await api.offload.run(work)
        except (StatusError, httpx.HTTPError, OSError, ValueError) as error:
            _log.info("no resource metrics of a node", node=node, error=str(error) or type(error).__name__)
            return None
