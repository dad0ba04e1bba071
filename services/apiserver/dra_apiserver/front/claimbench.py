"""``POST /insight/claim``: try a claim's requests on the cluster's devices (``dra_shared.cel.claimbench``)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

import msgspec
from dra_shared.api.codec import convert
from dra_shared.api.resource import DeviceClass
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.cel.claimbench import ClaimAnswer, examine, select_by_class
from dra_shared.yamltext import YamlError, load
from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from dra_apiserver.front.schemas import describe_answer
from dra_apiserver.front.strictjson import StrictJsonRoute
from dra_apiserver.front.workbench import Devices, Features

#: Returns the device classes by name.
Classes = Callable[[], Awaitable[Mapping[str, DeviceClass]]]

_VERSION = "resource.k8s.io/v1"
_LONGEST = 100_000
_CLAIM, _TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"


class ClaimRequest(BaseModel):
    """A ResourceClaim or ResourceClaimTemplate as YAML or JSON, and the number of devices to describe."""

    manifest: str = Field(max_length=_LONGEST)
    most: Annotated[int, Field(ge=0, le=100_000)] = 300


def router(devices: Devices, classes: Classes, features: Features) -> APIRouter:
    """Create the endpoints for these devices and classes."""
    made = APIRouter(prefix="/insight", tags=["insight"], route_class=StrictJsonRoute)

    @made.post("/claim", responses=describe_answer("ClaimAnswer"))
    async def claim(wanted: ClaimRequest) -> Response:
        """Return the devices that match each request of a claim, and the values for its constraints."""
        try:
            given = _claim(load(wanted.manifest).value)
            claimed = convert(RESOURCE_CLAIMS, given).spec.devices
        except (YamlError, msgspec.ValidationError, ValueError) as error:
            return _respond(ClaimAnswer(problem=str(error)))
        candidates, known, gates = await devices(), await classes(), await features()
        # Many requests on a large fleet would block the event loop for too long.
        report = await asyncio.to_thread(examine, claimed, known, candidates, gates, wanted.most)
        return _respond(msgspec.structs.replace(report, claim=given))

    @made.get("/classes", responses=describe_answer("ClassesAnswer"))
    async def select_devices() -> Response:
        """Return the devices that each device class selects."""
        candidates, known, gates = await devices(), await classes(), await features()
        return _respond(await asyncio.to_thread(select_by_class, known, candidates, gates))

    return made


def _respond(answer: msgspec.Struct) -> Response:
    return Response(msgspec.json.encode(answer), media_type="application/json")


def _claim(value: Any) -> dict[str, Any]:
    """Return the claim, or the claim of a template.

    Raises:
        ValueError: the value is neither.
    """
    if not isinstance(value, dict):
        raise ValueError("a ResourceClaim or ResourceClaimTemplate is wanted")
    kind, version = value.get("kind"), value.get("apiVersion")
    if kind not in (_CLAIM, _TEMPLATE):
        raise ValueError(f"kind must be {_CLAIM} or {_TEMPLATE}")
    if version != _VERSION:
        raise ValueError(f"apiVersion must be {_VERSION}")
    spec = value.get("spec")
    if kind == _TEMPLATE:
        spec = spec.get("spec") if isinstance(spec, dict) else None
    return {
        "apiVersion": _VERSION,
        "kind": _CLAIM,
        "metadata": value.get("metadata") or {},
        "spec": spec or {},
    }
