"""Slices of another node and of another driver, which the driver must leave alone."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from dra_shared.client.errors import ApiError
from dra_shared.jsontypes import JsonObject

from dra_conformance.world import RESOURCE, World

ANOTHER_NODE = "another-node"
_OTHER_DRIVER = "other.example.com"


@dataclass
class Foreign:
    """Texts about the foreign slices that were deleted or changed."""

    harmed: list[str] = field(default_factory=list)


@contextlib.asynccontextmanager
async def foreign_slices(world: World, driver: str) -> AsyncIterator[Foreign]:
    """Create foreign slices for the block. At its end, record which were deleted or changed, and delete the others."""
    created = {
        "a slice of another node": await _create(world, driver, ANOTHER_NODE),
        "a slice of another driver on its node": await _create(world, _OTHER_DRIVER, world.node),
    }
    seen = Foreign()
    try:
        yield seen
    finally:
        found = {one["metadata"]["name"]: one for one in await world.slices()}
        for text, before in created.items():
            name = before["metadata"]["name"]
            if name not in found:
                seen.harmed.append(f"it deleted {text}")
                continue
            if found[name]["spec"] != before["spec"]:
                seen.harmed.append(f"it changed {text}")
            with contextlib.suppress(ApiError):
                await world.write("DELETE", f"{RESOURCE}/resourceslices/{name}")


async def _create(world: World, driver: str, node: str) -> JsonObject:
    pool = {"name": f"elsewhere-{node}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": [{"name": "theirs"}]}
    body = {"metadata": {"generateName": "conformance-foreign-"}, "spec": spec}
    return await world.write("POST", f"{RESOURCE}/resourceslices", body)
