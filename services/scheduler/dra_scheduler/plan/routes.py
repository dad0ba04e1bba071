"""HTTP routes ``POST /plan/…`` on the scheduler's health port, for autoscalers and queues.

The answers are about the current cluster. They are computed in a thread, while scheduling continues.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import msgspec
from dra_shared.client.errors import ApiError
from dra_shared.client.informer import InformerFactory
from dra_shared.client.rest import Client
from dra_shared.clock import SystemClock
from dra_shared.mediatypes import CSV, HTML, JSON, choose

from dra_scheduler.config import SchedulerConfig
from dra_scheduler.plan.answers import complete, csv_of
from dra_scheduler.plan.clusterworld import cluster_world
from dra_scheduler.plan.engine import Engine
from dra_scheduler.plan.jsondoor import JsonDoor
from dra_scheduler.plan.planner import Planner
from dra_scheduler.plan.questions.catalog import QUESTIONS
from dra_scheduler.plan.report.page import Inputs, write_report
from dra_scheduler.plan.setup import Setup


def plan_routes(
    informers: InformerFactory, config: SchedulerConfig, client: Client
) -> dict[str, Callable[[Any], Awaitable[Any]]]:
    """Return the handlers by path."""
    setup = Setup.of(config)

    async def planner() -> Planner:
        objects, problems = await cluster_world(informers, client)
        return Planner(objects, Engine(setup), problems=problems)

    return {f"POST /plan/{name}": _endpoint(planner, name) for name in QUESTIONS}


def ask(
    planner: Planner, name: str, body: bytes, media_type: str = JSON, source: str = "this cluster"
) -> bytes:
    """Answer a question in JSON with JSON, a report in HTML, or CSV. Close the planner.

    ``source`` is the origin of the world for the report.

    Raises:
        ValueError: the question is invalid.
    """
    question, door = QUESTIONS[name], JsonDoor(planner)
    try:
        asked = msgspec.json.decode(body, type=question.request)
        answer = question.ask(door, asked)
        if media_type == HTML:
            inputs = Inputs(source, SystemClock().now())
            return write_report(question, asked, answer, door, inputs).encode()
        if media_type == CSV:
            return csv_of(question, answer).encode()
        return msgspec.json.encode(complete(answer))
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    finally:
        door.close()


def _endpoint(planner: Callable[[], Awaitable[Planner]], question: str) -> Callable[[Any], Awaitable[Any]]:
    async def handle(request: Any) -> Any:
        from starlette.responses import PlainTextResponse, Response

        body = await request.body()
        try:
            media_type = choose(request.headers.get("accept", ""))
            answer = await asyncio.to_thread(ask, await planner(), question, body, media_type)
        except ValueError as error:
            return PlainTextResponse(f"{error}\n", status_code=400)
        except (ApiError, httpx.HTTPError) as error:
            return PlainTextResponse(f"the cluster cannot be listed: {error}\n", status_code=503)
        return Response(answer, media_type=media_type)

    return handle
