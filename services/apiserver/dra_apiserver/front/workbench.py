"""``POST /insight/cel``: evaluate an expression for the cluster's devices (``dra_shared.cel.workbench``)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

from dra_shared.cel import MAX_LENGTH
from dra_shared.cel.workbench import Candidate, evaluate
from dra_shared.features import FeatureGates
from fastapi import APIRouter
from pydantic import Field

from dra_apiserver.front.models import Report
from dra_apiserver.front.strictjson import StrictJsonRoute

#: Gives the devices that expressions are tried on.
Devices = Callable[[], Awaitable[list[Candidate]]]
#: Gives the feature gates, with the version of Kubernetes, for which expressions are compiled.
Features = Callable[[], Awaitable[FeatureGates]]


class CelRequest(Report):
    """An expression, and the number of devices with details in the response."""

    expression: str = Field(max_length=MAX_LENGTH)
    most: Annotated[int, Field(ge=0, le=100_000)] = 1000


class CelProblem(Report):
    """A compile error. The offset is in code points, or -1."""

    offset: int
    message: str


class CelClause(Report):
    """An operand of the outermost ``&&``, its position, and the number of devices for which it is true."""

    expression: str
    start: int
    end: int
    matches: int


class CelFinding(Report):
    """The result for one device. A clause's text is the error of its evaluation."""

    driver: str
    pool: str
    node: str
    device: str
    matches: bool
    error: str
    cost: int
    clauses: list[bool | str]
    values: dict[str, str]


class CelAnswer(Report):
    """The results for all devices. Only has problems if the expression does not compile."""

    problems: list[CelProblem]
    estimated_cost: int
    cost_limit: int
    highest_cost: int
    clauses: list[CelClause]
    devices: int
    matches: int
    findings: list[CelFinding]


def router(devices: Devices, features: Features) -> APIRouter:
    """Create the endpoint for these devices."""
    made = APIRouter(prefix="/insight", tags=["insight"], route_class=StrictJsonRoute)

    @made.post("/cel")
    async def cel(wanted: CelRequest) -> CelAnswer:
        """Return the devices that a selector matches, and for others the clauses that reject them."""
        found, gates = await devices(), await features()
        # A long expression on a large fleet would block the event loop for too long.
        report = await asyncio.to_thread(evaluate, wanted.expression, found, gates, wanted.most)
        return CelAnswer.model_validate(report, from_attributes=True)

    return made
