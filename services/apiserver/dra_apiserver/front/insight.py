"""The scheduler's explanations and plans under ``/insight``: asked of the scheduler over HTTP, and typed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import httpx
from fastapi import APIRouter, HTTPException, Query

from dra_apiserver.config import Config
from dra_apiserver.front import plans
from dra_apiserver.front.models import ClassReport, Free, PodReport, Report

_TIMEOUT = 30.0
# Plans may search for as long as they are asked to.
_LONG = 3700.0

_Ask = Callable[..., Awaitable[Any]]
_MostNodes = Annotated[int, Query(ge=0, description="how many nodes to report")]


def router(config: Config) -> APIRouter:
    """The endpoints; without a scheduler that is known they answer 503."""
    made = APIRouter(prefix="/insight", tags=["insight"])
    headers = {"Authorization": f"Bearer {config.kubelet_token}"} if config.kubelet_token else {}

    async def asked(method: str, path: str, **arguments: Any) -> Any:
        if not config.scheduler_url:
            raise HTTPException(503, "no scheduler is known: --scheduler-url names it")
        try:
            async with httpx.AsyncClient(base_url=config.scheduler_url, timeout=_TIMEOUT) as client:
                answer = await client.request(method, path, headers=headers, **arguments)
        except httpx.HTTPError as error:
            raise HTTPException(503, f"the scheduler does not answer: {error}") from error
        if answer.status_code != 200:
            raise HTTPException(answer.status_code, answer.text.strip())
        return answer.json()

    @made.get("/free", response_model_exclude_unset=True)
    async def free() -> Free:
        """Free and used devices, by class, node and pool."""
        return Free.model_validate(await asked("GET", "/free"))

    @made.get("/explain/pod/{namespace}/{name}", response_model_exclude_unset=True)
    async def explain_pod(namespace: str, name: str, nodes: _MostNodes = 20) -> PodReport:
        """Why a pod is where it is, or nowhere."""
        path = f"/explain/pod/{namespace}/{name}"
        return PodReport.model_validate(await asked("GET", path, params={"nodes": nodes}))

    @made.get("/explain/claim/{namespace}/{name}", response_model_exclude_unset=True)
    async def explain_claim(namespace: str, name: str, nodes: _MostNodes = 20) -> PodReport:
        """The same for the pod that uses a claim."""
        path = f"/explain/claim/{namespace}/{name}"
        return PodReport.model_validate(await asked("GET", path, params={"nodes": nodes}))

    @made.get("/explain/class/{name}", response_model_exclude_unset=True)
    async def explain_class(name: str) -> ClassReport:
        """What a device class selects, and what it asks for that no device has."""
        return ClassReport.model_validate(await asked("GET", f"/explain/class/{name}"))

    _plan_routes(made, asked)
    return made


def _plan_routes(made: APIRouter, asked: _Ask) -> None:
    """``POST /plan/…``: what would happen, without doing it."""

    async def answer(question: str, body: Report) -> Any:
        given = body.model_dump(by_alias=True, exclude_unset=True)
        return await asked("POST", f"/plan/{question}", json=given, timeout=_LONG)

    @made.post("/plan/fit", response_model_exclude_unset=True)
    async def fit(wanted: plans.FitRequest) -> plans.Fit:
        """Whether pods would fit now, without creating them."""
        return plans.Fit.model_validate(await answer("fit", wanted))

    @made.post("/plan/drain", response_model_exclude_unset=True)
    async def drain(wanted: plans.NodesRequest) -> plans.Moves:
        """Where the pods of nodes go when they are drained."""
        return plans.Moves.model_validate(await answer("drain", wanted))

    @made.post("/plan/remove", response_model_exclude_unset=True)
    async def remove(wanted: plans.NodesRequest) -> plans.Moves:
        """Where the pods of nodes go when the nodes are gone at once."""
        return plans.Moves.model_validate(await answer("remove", wanted))

    @made.post("/plan/upgrade", response_model_exclude_unset=True)
    async def upgrade(wanted: plans.NodesRequest) -> plans.Moves:
        """In which order nodes can be drained one by one."""
        return plans.Moves.model_validate(await answer("upgrade", wanted))

    @made.post("/plan/taint", response_model_exclude_unset=True)
    async def taint(wanted: plans.TaintRequest) -> plans.Moves:
        """Which pods leave a tainted node or device."""
        return plans.Moves.model_validate(await answer("taint", wanted))

    @made.post("/plan/change", response_model_exclude_unset=True)
    async def change(wanted: plans.ChangeRequest) -> plans.Comparison:
        """What the same pods would get after an edit."""
        return plans.Comparison.model_validate(await answer("change", wanted))

    @made.post("/plan/nodes", response_model_exclude_unset=True)
    async def nodes(wanted: plans.PurchaseRequest) -> plans.Purchase:
        """The cheapest nodes on which everything fits that waits."""
        return plans.Purchase.model_validate(await answer("nodes", wanted))

    @made.post("/plan/pack", response_model_exclude_unset=True)
    async def pack(wanted: plans.PackRequest) -> plans.Packing:
        """What is stranded, and the fewest moves that make room."""
        return plans.Packing.model_validate(await answer("pack", wanted))

    @made.post("/plan/replay", response_model_exclude_unset=True)
    async def replay(wanted: plans.ReplayRequest) -> plans.Replay:
        """How a timeline of pods would go."""
        return plans.Replay.model_validate(await answer("replay", wanted))
