"""HTTP routes ``POST /plan/…`` on the scheduler's health port, for autoscalers and queues.

They answer for the cluster as the scheduler knows it, in a thread: scheduling goes on meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from dra_shared.api.codec import convert
from dra_shared.api.meta import Object, Struct
from dra_shared.api.pod import Pod
from dra_shared.api.resources import POD_GROUPS, PODS, Resource
from dra_shared.client.informer import InformerFactory

from dra_scheduler.config import SchedulerConfig
from dra_scheduler.plan.engine import Engine
from dra_scheduler.plan.fit import Fitter, Wanted
from dra_scheduler.plan.objects import BY_KIND, RESOURCES, Objects

_replace = msgspec.structs.replace
_MOST_COPIES = 100_000


class FitRequest(Struct):
    """Pods, with the claims, templates and groups that they refer to: complete objects, in the versions in use here.

    ``count`` copies of the pods are tried, or with ``max`` as many as fit. ``without`` are names of nodes to leave out.
    """

    objects: tuple[dict[str, Any], ...]
    count: int | None = None
    max: bool = False
    without: tuple[str, ...] = ()


def plan_routes(
    informers: InformerFactory, config: SchedulerConfig
) -> dict[str, Callable[[Any], Awaitable[Any]]]:
    """Paths and what answers them."""

    async def fit(request: Any) -> Any:
        from starlette.responses import PlainTextResponse, Response

        try:
            asked = msgspec.json.decode(await request.body(), type=FitRequest)
            wanted = _wanted(asked)
        except (msgspec.DecodeError, ValueError) as error:
            return PlainTextResponse(f"{error}\n", status_code=400)
        objects = _known(informers)
        answer = await asyncio.to_thread(_fit, objects, config, asked, wanted)
        return Response(msgspec.json.encode(answer), media_type="application/json")

    return {"POST /plan/fit": fit}


def _fit(objects: Objects, config: SchedulerConfig, asked: FitRequest, wanted: Wanted) -> Any:
    from dra_shared.api.resources import NODES

    if asked.without:
        objects = objects.without(NODES, asked.without)
    plain = SchedulerConfig(scheduler_name=config.scheduler_name, loaded=config.loaded, gates=config.gates)
    world = Engine(plain).at(objects)
    try:
        answer = Fitter(world, wanted).answer(asked.count, most=asked.max, more=False)
    finally:
        world.close()
    return msgspec.to_builtins(answer) | {"fits": answer.fits, "wanted": answer.wanted}


def _known(informers: InformerFactory) -> Objects:
    """What the scheduler has been notified of; later changes do not reach it."""
    found: dict[Resource[Any], dict[str, Object]] = {}
    for resource in RESOURCES:
        informer = informers.known(resource)
        if informer is not None:
            found[resource] = {obj.key: obj for obj in informer.store.list()}
    return Objects(found)


def _wanted(asked: FitRequest) -> Wanted:
    if asked.count is not None and not 0 < asked.count <= _MOST_COPIES:
        raise ValueError(f"count must be between 1 and {_MOST_COPIES}")
    pods: list[Pod] = []
    groups, others = [], []
    for value in asked.objects:
        group = str(value.get("apiVersion", "")).rpartition("/")[0]
        resource = BY_KIND.get((group, str(value.get("kind"))))
        if resource is None:
            raise ValueError(
                f"objects of kind {value.get('kind')} do not count: send pods and what they refer to"
            )
        obj: Any = convert(resource, value)
        if resource.namespaced and not obj.metadata.namespace:
            obj = _replace(obj, metadata=_replace(obj.metadata, namespace="default"))
        if resource is PODS:
            pods.append(_replace(obj, spec=_replace(obj.spec, node_name="")))
        elif resource is POD_GROUPS:
            groups.append(obj)
        else:
            others.append((resource, obj))
    if not pods:
        raise ValueError("there are no pods among the objects")
    return Wanted(pods, groups, others)
