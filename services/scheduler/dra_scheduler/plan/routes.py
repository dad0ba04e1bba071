"""HTTP routes ``POST /plan/…`` on the scheduler's health port, for autoscalers and queues.

They answer for the cluster as the scheduler knows it, in a thread: scheduling goes on meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from dra_shared.api.meta import Object, Struct
from dra_shared.api.resources import Resource
from dra_shared.client.informer import InformerFactory

from dra_scheduler.config import SchedulerConfig
from dra_scheduler.plan import requests
from dra_scheduler.plan.answers import complete
from dra_scheduler.plan.asking import Asked
from dra_scheduler.plan.objects import RESOURCES, Objects

Ask = Callable[[Asked, Any], Struct]

#: What answers each question, and what it takes.
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
    informers: InformerFactory, config: SchedulerConfig
) -> dict[str, Callable[[Any], Awaitable[Any]]]:
    """Paths and what answers them."""
    return {
        f"POST /plan/{name}": _endpoint(informers, config, kind, ask)
        for name, (kind, ask) in QUESTIONS.items()
    }


def _endpoint(
    informers: InformerFactory, config: SchedulerConfig, kind: type[Struct], ask: Ask
) -> Callable[[Any], Awaitable[Any]]:
    async def answered(request: Any) -> Any:
        from starlette.responses import PlainTextResponse, Response

        try:
            asked = msgspec.json.decode(await request.body(), type=kind)
            objects = _known(informers)
            answer = await asyncio.to_thread(ask, Asked(objects, config), asked)
        except (msgspec.DecodeError, ValueError) as error:
            return PlainTextResponse(f"{error}\n", status_code=400)
        return Response(msgspec.json.encode(complete(answer)), media_type="application/json")

    return answered


def _known(informers: InformerFactory) -> Objects:
    """What the scheduler has been notified of; later changes do not reach it."""
    found: dict[Resource[Any], dict[str, Object]] = {}
    for resource in RESOURCES:
        informer = informers.known(resource)
        if informer is not None:
            found[resource] = {obj.key: obj for obj in informer.store.list()}
    return Objects(found)
