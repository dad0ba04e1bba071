"""What users do with objects, against a running API server."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_cli import objects
from dra_cli.discovery import Discovery
from dra_cli.errors import CommandError
from dra_shared.client.errors import BadRequest
from dra_shared.client.rest import Client


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with (
        ApiServer(Config(port=0, data=tmp_path, relaxed=True)) as server,
        Client(server.url, user_agent="test") as made,
    ):
        yield made


def _config_map(**more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, **more}


async def test_apply_tells_what_became_of_each(client: Client) -> None:
    discovery = await Discovery.read(client)
    outcomes = [
        outcome
        for data in ({"a": "1"}, {"a": "1"}, {"a": "2"})
        for _, outcome in await objects.apply(client, discovery, [_config_map(data=data)], None)
    ]
    assert outcomes == ["created", "unchanged", "configured"]


async def test_apply_names_a_field_that_is_not_there(client: Client) -> None:
    discovery = await Discovery.read(client)
    with pytest.raises(BadRequest, match=r"\.dta: field not declared in schema"):
        await objects.apply(client, discovery, [_config_map(dta={"a": "1"})], None)
    # As the request was written in v1beta1.
    request = {"name": "gpu", "deviceClassName": "gpu.nvidia.com"}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [request]}},
    }
    with pytest.raises((BadRequest, CommandError), match="deviceClassName"):
        await objects.apply(client, discovery, [claim], None)
