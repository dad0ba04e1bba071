"""HTTP routes ``/explain/…`` and ``/free``, served on the scheduler's health port.

Starlette is only loaded at the first request, as for the health endpoints.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
from dra_shared.api.node import Node
from dra_shared.numerals import integer, is_digits

from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.explainer import Explainer
from dra_scheduler.explain.free import free
from dra_scheduler.explain.freetext import render_free
from dra_scheduler.explain.report import PodReport
from dra_scheduler.explain.text import render, render_class

_MOST_NODES = 20


def routes(
    explainer: Explainer, manager: DRAManager, nodes: Callable[[], Iterable[Node]]
) -> dict[str, Callable[[Any], Awaitable[Any]]]:
    """Return the handlers by path.

    ``/explain/pod/{namespace}/{name}``, ``/explain/claim/{namespace}/{name}`` and ``/explain/class/{name}``
    return JSON, or a tree with ``?format=text``. ``?nodes=N`` limits the number of nodes in the report.
    ``/free`` returns JSON, or tables with ``?format=text``. ``nodes`` returns all nodes.
    """

    async def pod(request: Any) -> Any:
        return _answer(request, explainer.pod, "pod")

    async def claim(request: Any) -> Any:
        return _answer(request, explainer.claim, "resourceclaim")

    async def device_class(request: Any) -> Any:
        name = request.path_params["name"]
        report = explainer.device_class(name)
        if report is None:
            return _text(f'there is no deviceclass "{name}"\n', 404)
        return _text(render_class(report)) if _wants_text(request) else _json(report)

    async def free_devices(request: Any) -> Any:
        report = await free(manager, nodes())
        if _wants_text(request):
            return _text(render_free(report))
        return _json(report)

    return {
        "/explain/pod/{namespace}/{name}": pod,
        "/explain/claim/{namespace}/{name}": claim,
        "/explain/class/{name}": device_class,
        "/free": free_devices,
    }


def _answer(request: Any, explain: Callable[..., PodReport | None], kind: str) -> Any:
    namespace, name = request.path_params["namespace"], request.path_params["name"]
    text = request.query_params.get("nodes", "")
    report = explain(namespace, name, most_nodes=integer(text) if is_digits(text) else _MOST_NODES)
    if report is None:
        return _text(f'there is no {kind} "{namespace}/{name}"\n', 404)
    return _text(render(report)) if _wants_text(request) else _json(report)


def _wants_text(request: Any) -> bool:
    return bool(request.query_params.get("format") == "text")


def _text(text: str, code: int = 200) -> Any:
    from starlette.responses import PlainTextResponse

    return PlainTextResponse(text, status_code=code)


def _json(value: msgspec.Struct) -> Any:
    from starlette.responses import Response

    return Response(msgspec.json.encode(value), media_type="application/json")
