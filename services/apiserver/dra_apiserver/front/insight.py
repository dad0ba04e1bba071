"""Typed endpoints for explanations and plans under ``/insight``. The caller provides the scheduler's responses.

An API server asks its scheduler (``front/scheduler.py``). A console for another cluster runs a scheduler in its
own process.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Protocol

import orjson
from dra_shared.jsontypes import JsonObject
from dra_shared.mediatypes import JSON, choose
from fastapi import APIRouter, HTTPException, Query, Request, Response

from dra_apiserver.front.schemas import describe_answer, describe_body, questions


class Ask(Protocol):
    """Requests a path of the scheduler's health port. A body is a planner question.

    The response is a decoded JSON document, or the text of another media type.

    Raises:
        HTTPException: there is no response or no such object, or the question is malformed.
    """

    async def __call__(
        self,
        path: str,
        params: Mapping[str, int],
        body: dict[str, Any] | None = None,
        media_type: str = JSON,
    ) -> Any: ...


#: Completes manifests as a server would store them. Raises ValueError if a manifest cannot be read.
Complete = Callable[[list[dict[str, Any]]], Awaitable[list[dict[str, Any]]]]

_MostNodes = Annotated[int, Query(ge=0, description="how many nodes to report")]


def router(ask: Ask, complete: Complete) -> APIRouter:
    """Create the endpoints. ``complete`` completes the objects of plan requests."""
    made = APIRouter(prefix="/insight", tags=["insight"])

    @made.get("/free", responses=describe_answer("Free"))
    async def free() -> Response:
        """Return free and used devices, by class, node and pool."""
        return _respond(await ask("/free", {}))

    @made.get("/explain/pod/{namespace}/{name}", responses=describe_answer("PodReport"))
    async def explain_pod(namespace: str, name: str, nodes: _MostNodes = 20) -> Response:
        """Explain why a pod is on its node, or why it is pending."""
        return _respond(await ask(f"/explain/pod/{namespace}/{name}", {"nodes": nodes}))

    @made.get("/explain/claim/{namespace}/{name}", responses=describe_answer("PodReport"))
    async def explain_claim(namespace: str, name: str, nodes: _MostNodes = 20) -> Response:
        """Explain the pod that uses a claim."""
        return _respond(await ask(f"/explain/claim/{namespace}/{name}", {"nodes": nodes}))

    @made.get("/explain/class/{name}", responses=describe_answer("ClassReport"))
    async def explain_class(name: str) -> Response:
        """Explain the devices that a class selects, and the conditions that no device fulfills."""
        return _respond(await ask(f"/explain/class/{name}", {}))

    async def plan(request: Request) -> Response:
        wanted = await _read_object(request)
        try:
            await _complete_objects(wanted, complete)
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        media_type = choose(request.headers.get("accept", ""))
        path = f"/plan/{request.url.path.rpartition('/')[2]}"
        if media_type != JSON:
            return Response(await ask(path, {}, wanted, media_type), media_type=media_type)
        return _respond(await ask(path, {}, wanted))

    for name, question in questions().items():
        made.add_api_route(
            f"/plan/{name}",
            plan,
            methods=["POST"],
            name=name,
            description=question["about"],
            openapi_extra=describe_body(question["request"]),
            responses=describe_answer(question["answer"]),
        )
    # The scheduler may be newer and know questions that the API server does not.
    made.add_api_route("/plan/{question}", plan, methods=["POST"], include_in_schema=False)
    return made


def _respond(answer: Any) -> Response:
    return Response(orjson.dumps(answer), media_type="application/json")


async def _read_object(request: Request) -> JsonObject:
    try:
        found = orjson.loads(await request.body())
    except orjson.JSONDecodeError as error:
        raise HTTPException(422, f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise HTTPException(422, "the body is not a JSON object")
    return found


async def _complete_objects(given: JsonObject, complete: Complete) -> None:
    """Complete the objects of a request, and those of its node types, arrivals and changes.

    Fields of a wrong type are left for the scheduler to report.
    """
    objects, arrivals = _objects(given, "objects"), _objects(given, "arrivals")
    arrivals = [arrival for arrival in arrivals if isinstance(arrival.get("object"), dict)]
    # The objects that the pods of arrivals refer to are among the request's objects.
    completed = await complete([*objects, *(arrival["object"] for arrival in arrivals)])
    for arrival in reversed(arrivals):
        arrival["object"] = completed.pop()
    if objects:
        given["objects"] = completed
    for part in (*_objects(given, "types"), *_objects(given, "changes")):
        await _complete_objects(part, complete)


def _objects(given: JsonObject, field: str) -> list[JsonObject]:
    """Return a field that is a list of objects; none if it is absent or anything else."""
    found = given.get(field)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        return []
    return found
