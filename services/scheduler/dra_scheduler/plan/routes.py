"""HTTP routes ``POST /plan/…`` on the scheduler's health port, for autoscalers and queues.

They answer for the current cluster in a thread, while scheduling continues.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import msgspec
from dra_shared.api.meta import Struct
from dra_shared.client.errors import ApiError
from dra_shared.client.informer import InformerFactory
from dra_shared.client.rest import Client

from dra_scheduler.config import SchedulerConfig
from dra_scheduler.plan import requests
from dra_scheduler.plan.answers import complete
from dra_scheduler.plan.asking import Asked
from dra_scheduler.plan.clusterworld import cluster_world
from dra_scheduler.plan.engine import Engine
from dra_scheduler.plan.planner import Planner
from dra_scheduler.plan.setup import Setup

Ask = Callable[[Asked, Any], Struct]

# The request type and the handler of each question.
QUESTIONS: dict[str, tuple[type[Struct], Ask]] = {
    "fit": (requests.FitRequest, Asked.fit),
    "drain": (requests.NodesRequest, Asked.drain),
    "remove": (requests.NodesRequest, Asked.remove),
    "upgrade": (requests.NodesRequest, Asked.upgrade),
    "taint": (requests.TaintRequest, Asked.taint),
    "change": (requests.ChangeRequest, Asked.change),
    "nodes": (requests.PurchaseRequest, Asked.nodes),
    "pack": (requests.PackRequest, Asked.pack),
    "replay": (requests.ReplayRequest, Asked.replay),
}


def plan_routes(
    informers: InformerFactory, config: SchedulerConfig, client: Client
) -> dict[str, Callable[[Any], Awaitable[Any]]]:
    """Return the handlers by path."""
    setup = Setup.of(config)

    async def planner() -> Planner:
        objects, problems = await cluster_world(informers, client)
        return Planner(objects, Engine(setup), problems=problems)

    return {f"POST /plan/{name}": _endpoint(planner, name) for name in QUESTIONS}


def ask(planner: Planner, question: str, body: bytes) -> bytes:
    """Answer a question. Question and answer are JSON.

    Raises:
        ValueError: the question is invalid.
    """
    kind, answer = QUESTIONS[question]
    try:
        return msgspec.json.encode(complete(answer(Asked(planner), msgspec.json.decode(body, type=kind))))
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    finally:
        planner.close()


def _endpoint(planner: Callable[[], Awaitable[Planner]], question: str) -> Callable[[Any], Awaitable[Any]]:
    async def handle(request: Any) -> Any:
        from starlette.responses import PlainTextResponse, Response

        body = await request.body()
        try:
            answer = await asyncio.to_thread(ask, await planner(), question, body)
        except ValueError as error:
            return PlainTextResponse(f"{error}\n", status_code=400)
        except (ApiError, httpx.HTTPError) as error:
            return PlainTextResponse(f"the cluster cannot be listed: {error}\n", status_code=503)
        return Response(answer, media_type="application/json")

    return handle
