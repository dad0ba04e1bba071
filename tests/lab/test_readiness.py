"""A new cluster is ready once its nodes accept pods."""

import asyncio
from pathlib import Path
from typing import Any

from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_lab.services import wait_for_schedulable_nodes
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.node import Node
from dra_shared.api.resources import NODES
from dra_shared.client.rest import Client

from tests.support.waiting import until


class _Counting(Client):
    lists = 0

    async def list(self, *args: Any, **kwargs: Any) -> Any:
        self.lists += 1
        return await super().list(*args, **kwargs)


async def test_the_cluster_is_ready_once_its_nodes_lose_the_not_ready_taint(tmp_path: Path) -> None:
    async with (
        ApiServer(Config(port=0, data=tmp_path, database=IN_MEMORY)) as server,
        _Counting(server.url) as client,
    ):
        for name, ready in (("up", "True"), ("down", "False")):
            node = await client.create(NODES, Node(metadata=ObjectMeta(name=name)))
            assert [taint.key for taint in node.spec.taints] == ["node.kubernetes.io/not-ready"]
            await client.patch_status(NODES, node, {"conditions": [{"type": "Ready", "status": ready}]})
        waiting = asyncio.create_task(wait_for_schedulable_nodes(client))
        await until(lambda: client.lists > 2)
        assert not waiting.done()
        await client.patch(NODES, "up", {"spec": {"taints": None}})
        await waiting
        # The node that is not ready keeps its taint and is not waited for.
        assert [bool(node.spec.taints) for node in (await client.list(NODES)).items] == [True, False]
