"""The scheduler's explanations and plans under ``/insight``: asked of the scheduler over HTTP, and typed."""

from __future__ import annotations

from typing import Annotated, Any

import httpx
from fastapi import APIRouter, HTTPException, Query

from dra_apiserver.config import Config
from dra_apiserver.front.models import ClassReport, FitAnswer, FitRequest, Free, PodReport

_TIMEOUT = 30.0

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

    @made.post("/plan/fit", response_model_exclude_unset=True)
    async def fit(wanted: FitRequest) -> FitAnswer:
        """Whether pods would fit now, without creating them."""
        body = wanted.model_dump(by_alias=True, exclude_unset=True)
        return FitAnswer.model_validate(await asked("POST", "/plan/fit", json=body))

    return made
