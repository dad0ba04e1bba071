"""The devices of the store's slices, for questions about all of them."""

from typing import Any

from dra_shared.api.codec import decode
from dra_shared.api.resources import RESOURCE_SLICES
from dra_shared.cel.workbench import Candidate, candidates

from dra_apiserver.api import Api
from dra_apiserver.front.workbench import Devices

_SLICES = (RESOURCE_SLICES.group, RESOURCE_SLICES.plural)


def stored_devices(api: Api) -> Devices:
    """The devices of the store's slices, decoded again only when a slice has changed."""
    known: tuple[int, list[Candidate]] | None = None

    async def devices() -> list[Candidate]:
        nonlocal known
        revision = api.store.collection(_SLICES).revision
        if known is None or known[0] != revision:
            records: list[Any] = api.listing(*_SLICES, "")
            known = revision, candidates(decode(RESOURCE_SLICES, data) for data in records)
        return known[1]

    return devices
