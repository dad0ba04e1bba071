"""Typed endpoints for explanations and plans under ``/insight``. The caller provides the scheduler's responses.

An API server asks its scheduler (``front/scheduler.py``). The console of another cluster asks one in its own
process.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, HTTPException, Query

from dra_apiserver.front import plans
from dra_apiserver.front.models import ClassReport, Free, PodReport, Report
from dra_apiserver.front.strictjson import StrictJsonRoute


class Ask(Protocol):
    """Requests a path of the scheduler's health port. A body is a planner question.

    Raises:
        HTTPException: there is no response or no such object, or the question is malformed.
    """

    async def __call__(
        self, path: str, params: Mapping[str, int], body: dict[str, Any] | None = None
    ) -> Any: ...


#: Returns manifests as a server would store them. Raises ValueError for one that cannot be read.
Complete = Callable[[list[dict[str, Any]]], Awaitable[list[dict[str, Any]]]]

#: Each plan's request and answer, and what ``/docs`` says of it.
_PLANS: dict[str, tuple[type[Report], type[Report], str]] = {
    "fit": (plans.FitRequest, plans.Fit, "Whether pods would fit now, without creating them."),
    "drain": (plans.NodesRequest, plans.Moves, "Where the pods of nodes go when they are drained."),
    "remove": (
        plans.NodesRequest,
        plans.Moves,
        "Where the pods of nodes go when the nodes are gone at once.",
    ),
    "upgrade": (plans.NodesRequest, plans.Moves, "In which order nodes can be drained one by one."),
    "taint": (plans.TaintRequest, plans.Moves, "Which pods leave a tainted node or device."),
    "change": (plans.ChangeRequest, plans.Comparison, "What the same pods would get after an edit."),
    "nodes": (
        plans.PurchaseRequest,
        plans.Purchase,
        "The cheapest nodes on which everything fits that waits.",
    ),
    "pack": (plans.PackRequest, plans.Packing, "What is stranded, and the fewest moves that make room."),
    "replay": (plans.ReplayRequest, plans.Replay, "How a timeline of pods would go."),
}
_MostNodes = Annotated[int, Query(ge=0, description="how many nodes to report")]


def router(ask: Ask, complete: Complete) -> APIRouter:
    """Create the endpoints. ``complete`` completes the objects of plan requests."""
    made = APIRouter(prefix="/insight", tags=["insight"], route_class=StrictJsonRoute)

    @made.get("/free", response_model_exclude_unset=True)
    async def free() -> Free:
        """Return free and used devices, by class, node and pool."""
        return Free.model_validate(await ask("/free", {}))

    @made.get("/explain/pod/{namespace}/{name}", response_model_exclude_unset=True)
    async def explain_pod(namespace: str, name: str, nodes: _MostNodes = 20) -> PodReport:
        """Explain why a pod is on its node, or why it is pending."""
        return PodReport.model_validate(await ask(f"/explain/pod/{namespace}/{name}", {"nodes": nodes}))

    @made.get("/explain/claim/{namespace}/{name}", response_model_exclude_unset=True)
    async def explain_claim(namespace: str, name: str, nodes: _MostNodes = 20) -> PodReport:
        """Explain the pod that uses a claim."""
        return PodReport.model_validate(await ask(f"/explain/claim/{namespace}/{name}", {"nodes": nodes}))

    @made.get("/explain/class/{name}", response_model_exclude_unset=True)
    async def explain_class(name: str) -> ClassReport:
        """Explain the devices that a class selects, and the conditions that no device fulfills."""
        return ClassReport.model_validate(await ask(f"/explain/class/{name}", {}))

    for name in _PLANS:
        _add_plan(made, ask, complete, name)

    @made.post("/plan/{question}", include_in_schema=False)
    async def plan(question: str, wanted: dict[str, Any]) -> Any:
        """Ask a question that has no type here: the scheduler may know more of them than the API server."""
        return await _ask_plan(ask, complete, question, wanted)

    return made


def _add_plan(made: APIRouter, ask: Ask, complete: Complete, name: str) -> None:
    """Add ``POST /plan/NAME``: compute a plan without executing it."""
    request, answer, about = _PLANS[name]

    async def endpoint(wanted: Report) -> Any:
        given = wanted.model_dump(by_alias=True, exclude_unset=True)
        return answer.model_validate(await _ask_plan(ask, complete, name, given))

    # FastAPI reads the body's type from here.
    endpoint.__annotations__["wanted"] = request
    made.add_api_route(
        f"/plan/{name}",
        endpoint,
        methods=["POST"],
        name=name,
        description=about,
        response_model=answer,
        response_model_exclude_unset=True,
    )


async def _ask_plan(ask: Ask, complete: Complete, name: str, given: dict[str, Any]) -> Any:
    try:
        await _complete_objects(given, complete)
    except ValueError as error:
        raise HTTPException(400, str(error)) from error
    return await ask(f"/plan/{name}", {}, given)


async def _complete_objects(given: dict[str, Any], complete: Complete) -> None:
    """Complete the objects of a request, and those of its types, arrivals and changes."""
    arrivals = given.get("arrivals", ())
    # The objects that the pods of arrivals refer to are among the request's objects.
    objects = await complete([*given.get("objects", ()), *(arrival["object"] for arrival in arrivals)])
    for arrival in reversed(arrivals):
        arrival["object"] = objects.pop()
    if "objects" in given:
        given["objects"] = objects
    for part in (*given.get("types", ()), *given.get("changes", ())):
        await _complete_objects(part, complete)
