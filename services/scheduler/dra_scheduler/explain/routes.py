"""The HTTP face of explanations, beside the scheduler's health: ``/explain/…`` and ``/free``.

Starlette is only loaded when a request comes, as it is for health itself.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from dra_scheduler.explain.explainer import Explainer
from dra_scheduler.explain.free import free
from dra_scheduler.explain.report import PodReport
from dra_scheduler.explain.text import render
from dra_scheduler.plugins.dynamicresources.manager import DRAManager

_MOST_NODES = 20


def routes(explainer: Explainer, manager: DRAManager) -> dict[str, Callable[[Any], Awaitable[Any]]]:
    """Paths and what answers them.

    ``/explain/pod/{namespace}/{name}`` and ``/explain/claim/{namespace}/{name}`` answer in JSON, or as a tree with
    ``?format=text``; ``?nodes=N`` says how many nodes to tell of. ``/free`` answers in JSON.
    """

    async def pod(request: Any) -> Any:
        return _answer(request, explainer.pod, "pod")

    async def claim(request: Any) -> Any:
        return _answer(request, explainer.claim, "resourceclaim")

    async def free_devices(request: Any) -> Any:
        return _json(free(manager, manager.classes.list()))

    return {
        "/explain/pod/{namespace}/{name}": pod,
        "/explain/claim/{namespace}/{name}": claim,
        "/free": free_devices,
    }


def _answer(request: Any, explain: Callable[..., PodReport | None], kind: str) -> Any:
    from starlette.responses import PlainTextResponse

    namespace, name = request.path_params["namespace"], request.path_params["name"]
    text = request.query_params.get("nodes", "")
    report = explain(
        namespace, name, most_nodes=int(text) if text.isascii() and text.isdigit() else _MOST_NODES
    )
    if report is None:
        return PlainTextResponse(f'there is no {kind} "{namespace}/{name}"\n', status_code=404)
    if request.query_params.get("format") == "text":
        return PlainTextResponse(render(report))
    return _json(report)


def _json(value: msgspec.Struct) -> Any:
    from starlette.responses import Response

    return Response(msgspec.json.encode(value), media_type="application/json")
