"""``POST /insight/claim``: try a claim's requests on the cluster's devices (``dra_shared.cel.claimbench``)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

import msgspec
from dra_shared.api.codec import convert
from dra_shared.api.resource import DeviceClass
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.cel.claimbench import examine, select_by_class
from dra_shared.yamltext import YamlError, load
from fastapi import APIRouter
from pydantic import Field

from dra_apiserver.front.models import Report
from dra_apiserver.front.strictjson import StrictJsonRoute
from dra_apiserver.front.workbench import CelProblem, Devices, Features

#: Gives the device classes by name.
Classes = Callable[[], Awaitable[Mapping[str, DeviceClass]]]

_VERSION = "resource.k8s.io/v1"
_LONGEST = 100_000
_CLAIM, _TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"


class ClaimRequest(Report):
    """A ResourceClaim or ResourceClaimTemplate as YAML or JSON, and the number of devices with details in the
    response.
    """

    manifest: str = Field(max_length=_LONGEST)
    most: Annotated[int, Field(ge=0, le=100_000)] = 300


class SelectorReport(Report):
    """A selector, and the number of devices that pass it. It does not compile if it has problems."""

    of_class: bool
    expression: str
    problems: list[CelProblem]
    matches: int


class MatchReport(Report):
    """The result for one device. A selector's text is the error of its evaluation."""

    driver: str
    pool: str
    node: str
    device: str
    matches: bool
    selectors: list[bool | str]
    values: dict[str, str]


class RequestMatchesReport(Report):
    """A request, or ``REQUEST/ALTERNATIVE`` of one with ``firstAvailable``, and the devices that pass its
    selectors.
    """

    name: str
    device_class: str
    mode: str
    count: int
    problem: str
    selectors: list[SelectorReport]
    devices: int
    matches: int
    findings: list[MatchReport]


class ConstraintReport(Report):
    """A constraint's attribute, and the number of its requests' devices with each value; ``without`` have none."""

    attribute: str
    distinct: bool
    requests: list[str]
    values: dict[str, int]
    without: int


class ClaimAnswer(Report):
    """The results for the claim, and the claim itself. ``problem`` says why the manifest can't be read."""

    problem: str = ""
    claim: dict[str, Any] = Field(default_factory=dict)
    requests: list[RequestMatchesReport] = Field(default_factory=list)
    constraints: list[ConstraintReport] = Field(default_factory=list)


class ClassMatchesReport(Report):
    """The devices of a class, as positions in the response's ``devices``. A problem says why they are not known."""

    name: str
    devices: list[int]
    problem: str


class ClassesAnswer(Report):
    """All devices, as DRIVER/POOL/DEVICE, and those that each class selects."""

    devices: list[str]
    classes: list[ClassMatchesReport]


def router(devices: Devices, classes: Classes, features: Features) -> APIRouter:
    """Create the endpoints for these devices and classes."""
    made = APIRouter(prefix="/insight", tags=["insight"], route_class=StrictJsonRoute)

    @made.post("/claim")
    async def claim(wanted: ClaimRequest) -> ClaimAnswer:
        """Return the devices that match each request of a claim, and the values for its constraints."""
        try:
            given = _claim(load(wanted.manifest).value)
            claimed = convert(RESOURCE_CLAIMS, given).spec.devices
        except (YamlError, msgspec.ValidationError, ValueError) as error:
            return ClaimAnswer(problem=str(error))
        candidates, known, gates = await devices(), await classes(), await features()
        # Many requests on a large fleet would block the event loop for too long.
        report = await asyncio.to_thread(examine, claimed, known, candidates, gates, wanted.most)
        answer = ClaimAnswer.model_validate(report, from_attributes=True)
        answer.claim = given
        return answer

    @made.get("/classes")
    async def select_devices() -> ClassesAnswer:
        """Return the devices that each device class selects."""
        candidates, known, gates = await devices(), await classes(), await features()
        report = await asyncio.to_thread(select_by_class, known, candidates, gates)
        return ClassesAnswer(
            devices=[f"{one.driver}/{one.pool}/{one.device.name}" for one in candidates],
            classes=[ClassMatchesReport.model_validate(one, from_attributes=True) for one in report],
        )

    return made


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
