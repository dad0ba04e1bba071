"""The devices of docs/writing-a-driver.md#parts-and-shares, against a real API server."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resource import ResourcePool, ResourceSlice, ResourceSliceSpec
from dra_shared.api.resources import RESOURCE_SLICES
from dra_shared.client.rest import Client
from dralab import driver

from tests.support.reference import REPOSITORY

pytestmark = pytest.mark.system


def _publish() -> driver.DriverResources:
    """Return the resources that the guide's own code publishes."""
    text = (REPOSITORY / "docs" / "writing-a-driver.md").read_text()
    part = text.partition("### Parts and shares")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
    found: list[driver.DriverResources] = []
    surroundings: dict[str, Any] = {
        "driver": driver,
        "server": SimpleNamespace(publish=found.append),
        "node": SimpleNamespace(node_name="node-0"),
    }
    exec(code, surroundings)
    return found[0]


async def test_the_api_server_accepts_the_slices_of_the_guide(tmp_path: Path) -> None:
    (pool,) = _publish().pools.values()
    stored = []
    async with (
        ApiServer(Config(port=0, data=tmp_path, database=IN_MEMORY)) as server,
        Client(server.url) as client,
    ):
        for number, part in enumerate(pool.slices):
            spec = ResourceSliceSpec(
                driver="npu.example.com",
                node_name="node-0",
                pool=ResourcePool(generation=1, name="node-0", resource_slice_count=len(pool.slices)),
                devices=part.devices,
                shared_counters=part.shared_counters,
            )
            made = ResourceSlice(metadata=ObjectMeta(name=f"s{number}"), spec=spec)
            stored.append((await client.create(RESOURCE_SLICES, made)).spec)
    assert [counters.name for spec in stored for counters in spec.shared_counters] == ["npu-0-cores"]
    devices = {device.name: device for spec in stored for device in spec.devices}
    assert list(devices) == ["npu-0", "npu-0-left", "npu-0-right", "npu-0-shared"]
    shared = devices["npu-0-shared"]
    assert shared.allow_multiple_allocations
    policy = shared.capacity["memory"].request_policy
    assert policy is not None
    assert policy.default == "1Gi"
