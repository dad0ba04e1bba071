"""Edit a slice after an outage of the API server, and observe whether the driver repairs it."""

import asyncio
import contextlib
import copy
from dataclasses import dataclass

from dra_shared.client.errors import ApiError
from dra_shared.jsontypes import JsonObject

from dra_conformance.check import Unmet
from dra_conformance.observations import fail_api_server, wipe_slices
from dra_conformance.session import Session, incomplete_pools
from dra_conformance.world import RESOURCE

_MARK = "conformance.dralab.dev/edited"


@dataclass
class Repaired:
    """Observations of a slice that was edited after an outage.

    Args:
        edited: True if the edit was undone.
        deleted: True if the slice was published again after its deletion. It is deleted only if the edit stayed.
    """

    edited: bool = False
    deleted: bool = True


async def repair_after_outage(session: Session) -> Repaired:
    """Let the API server fail for a while, then edit a slice. If the edit stays, delete the slice.

    Raises:
        Unmet: the driver does not restore slices at all, or ended in the outage.
    """
    if not (await session.once(wipe_slices)).restored:
        raise Unmet("deleted slices do not come back")
    if not (await session.once(fail_api_server)).alive:
        raise Unmet("the driver ended in the outage")
    await session.await_slices(session.pace.start)
    chosen = next((one for one in session.slices if one["spec"].get("devices")), None)
    if chosen is None:
        raise Unmet("the driver has published no devices")
    path = f"{RESOURCE}/resourceslices/{chosen['metadata']['name']}"
    await session.world.write("PUT", path, _edit(await session.world.read(path)))
    seen = Repaired(edited=await _await_repair(session))
    if not seen.edited:
        with contextlib.suppress(ApiError):
            await session.world.write("DELETE", path)
        seen.deleted = await _await_repair(session)
    return seen


def _edit(found: JsonObject) -> JsonObject:
    edited = copy.deepcopy(found)
    edited["spec"]["devices"][0].setdefault("attributes", {})[_MARK] = {"bool": True}
    return edited


async def _await_repair(session: Session) -> bool:
    """Wait until the driver's pools are complete and have no edited device. Return True if it was in time."""
    wanted = {device.key for device in session.devices}
    loop = asyncio.get_running_loop()
    end = loop.time() + session.pace.restored
    while loop.time() < end:
        slices = await session.read_slices()
        devices = [
            (one["spec"]["pool"]["name"], part) for one in slices for part in one["spec"].get("devices") or ()
        ]
        clean = not any(_MARK in (part.get("attributes") or {}) for _, part in devices)
        published = {(pool, part["name"]) for pool, part in devices}
        if clean and wanted <= published and not incomplete_pools(slices):
            return True
        await asyncio.sleep(session.pace.poll * 5)
    return False
