"""``POST /insight/cel``: evaluate an expression for the cluster's devices (``dra_shared.cel.workbench``)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec
from dra_shared.cel import MAX_LENGTH
from dra_shared.cel.workbench import Candidate, evaluate
from dra_shared.features import FeatureGates
from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from dra_apiserver.front.schemas import describe_answer
from dra_apiserver.front.strictjson import StrictJsonRoute

#: Returns the devices for which expressions are evaluated.
Devices = Callable[[], Awaitable[list[Candidate]]]
#: Returns the feature gates, with the version of Kubernetes, for which expressions are compiled.
Features = Callable[[], Awaitable[FeatureGates]]


class CelRequest(BaseModel):
    """An expression, and the maximum number of devices to describe in the response."""

    expression: str = Field(max_length=MAX_LENGTH)
    most: Annotated[int, Field(ge=0, le=100_000)] = 1000


def router(devices: Devices, features: Features) -> APIRouter:
    """Create the endpoint for these devices."""
    made = APIRouter(prefix="/insight", tags=["insight"], route_class=StrictJsonRoute)

    @made.post("/cel", responses=describe_answer("CelAnswer"))
    async def cel(wanted: CelRequest) -> Response:
        """Return the devices that a selector matches, and for others the clauses that reject them."""
        found, gates = await devices(), await features()
        # A long expression on a large fleet would block the event loop for too long.
        report = await asyncio.to_thread(evaluate, wanted.expression, found, gates, wanted.most)
        return Response(msgspec.json.encode(report), media_type="application/json")

    return made
