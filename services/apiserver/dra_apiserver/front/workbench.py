"""``POST /insight/cel``: what an expression makes of the cluster's devices (``dra_shared.cel.workbench``)."""

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
    """An expression, and of how many devices the answer says each detail."""

    expression: str = Field(max_length=MAX_LENGTH)
    most: Annotated[int, Field(ge=0, le=100_000)] = 1000


class CelProblem(Report):
    """Why the expression does not compile; the offset is in code points, -1 where there is none."""

    offset: int
    message: str


class CelClause(Report):
    """An operand of the outermost ``&&``, where it stands, and how many devices it is true for."""

    expression: str
    start: int
    end: int
    matches: int


class CelFinding(Report):
    """What came of one device; a clause's text is why it could not be evaluated."""

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
    """What came of all devices; only problems where the expression does not compile."""

    problems: list[CelProblem]
    estimated_cost: int
    cost_limit: int
    highest_cost: int
    clauses: list[CelClause]
    devices: int
    matches: int
    findings: list[CelFinding]


def router(devices: Devices, features: Features) -> APIRouter:
    """The endpoint, on these devices."""
    made = APIRouter(prefix="/insight", tags=["insight"], route_class=StrictJsonRoute)

    @made.post("/cel")
    async def cel(wanted: CelRequest) -> CelAnswer:
        """Which devices a selector matches, and which of its clauses turned the others away."""
        found, gates = await devices(), await features()
        # A long expression on a large fleet takes longer than the event loop can spare.
        report = await asyncio.to_thread(evaluate, wanted.expression, found, gates, wanted.most)
        return CelAnswer.model_validate(report, from_attributes=True)

    return made
