"""Opaque configuration of devices (resource.k8s.io/v1, OpaqueDeviceConfiguration)."""

from collections.abc import Iterator
from typing import Any

from dra_conformance.check import Area, Breach, NotOffered, Unmet
from dra_conformance.claims import Result, config
from dra_conformance.session import Session

AREA = Area("config", rests_on=("prepare.succeeds", "unprepare.succeeds"))

_TYPES = "staging/src/k8s.io/api/resource/v1/types.go (OpaqueDeviceConfiguration)"
_STRICT = "https://github.com/kubernetes-sigs/dra-example-driver/tree/main/api (strict decoding)"
_SECRET = "conformance-canary-6f1c"


@AREA.check(
    "other-drivers",
    "configuration of other drivers is left alone",
    promise="A claim may carry configuration for several drivers; each reads its own.",
    source=_TYPES,
    cost="A claim that is configured for two vendors cannot be prepared.",
)
async def _check_other_drivers(session: Session) -> None:
    other = config("other.example.com", {"apiVersion": "other.example.com/v1", "kind": "Theirs", "speed": 9})
    if isinstance(answer := await _answer(session, other), str):
        raise Breach(answer)


@AREA.check(
    "unknown-kind",
    "an unknown kind is refused",
    promise="Parameters of a kind that the driver does not know are an error of the claim, not ignored.",
    source=_TYPES + " (it is the driver's responsibility to validate)",
    cost="Users believe that a setting counts, and it does not.",
)
async def _check_unknown_kind(session: Session) -> None:
    parameters = {"apiVersion": "conformance.dralab.dev/v1", "kind": "Unknown", "some": {"deep": ["value"]}}
    await _expect_refusal(session, parameters)


@AREA.check(
    "subrequests",
    "configuration of a request applies to its alternatives too",
    promise="Configuration for the request r0 applies to the result r0/large: the name covers all alternatives.",
    source="staging/src/k8s.io/dynamic-resource-allocation/resourceclaim (ConfigForResult);"
    " https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/1356",
    cost="With firstAvailable the user's settings are ignored, silently.",
)
async def _check_subrequests(session: Session) -> None:
    parameters = {"apiVersion": "conformance.dralab.dev/v1", "kind": "Unknown", "some": {"deep": ["value"]}}
    device = session.pick()[0]
    wrong = config(session.name, parameters)
    if not isinstance(await _answer(session, wrong), str):
        raise Unmet("an unknown kind is accepted anyway")
    async with session.claim([Result(device, "r0/large")], [{**wrong, "requests": ["r0"]}]) as claim:
        if not isinstance(await session.try_prepare(claim), str):
            raise Breach("configuration for r0 is ignored for r0/large")


@AREA.check(
    "no-kind",
    "parameters without a kind are refused",
    promise="Parameters without apiVersion and kind are an error of the claim.",
    source=_TYPES + " (self-identification: kind and apiVersion)",
    cost="A typing error in kind turns a setting off, silently.",
    recommended=True,
)
async def _check_no_kind(session: Session) -> None:
    await _expect_refusal(session, {"some": {"deep": ["value"]}})


@AREA.check(
    "accepted",
    "valid parameters are accepted",
    promise="The parameters given with --config are accepted, from the claim and from the class.",
    source=_TYPES,
    cost="No pod with configuration starts.",
)
async def _check_accepted(session: Session) -> None:
    parameters = _parameters(session)
    for source in ("FromClaim", "FromClass"):
        answer = await _answer(session, config(session.name, parameters, source=source))
        if isinstance(answer, str):
            raise Breach(f"{source}: {answer}")


@AREA.check(
    "defaults",
    "missing parameters have defaults",
    promise="Parameters with apiVersion and kind alone are accepted.",
    source=_STRICT,
    cost="A new field breaks all claims that were written before it.",
    recommended=True,
)
async def _check_defaults(session: Session) -> None:
    parameters = _parameters(session)
    bare = {key: parameters[key] for key in ("apiVersion", "kind") if key in parameters}
    if isinstance(answer := await _answer(session, config(session.name, bare)), str):
        raise Breach(answer)


@AREA.check(
    "unknown-field",
    "an unknown field is refused",
    promise="Decoding is strict: a field that the kind does not have is an error.",
    source=_STRICT,
    cost="A typing error in a field's name turns a setting off, silently.",
    recommended=True,
)
async def _check_unknown_field(session: Session) -> None:
    await _expect_refusal(session, {**_parameters(session), "conformanceUnknownField": True})


@AREA.check(
    "unknown-nested-field",
    "an unknown field is refused at every depth",
    promise="Decoding is strict in lists and maps, too: a field that a nested object does not have is an error.",
    source=_STRICT,
    cost="A typing error below the first level turns a setting off, silently.",
    recommended=True,
    rests_on=("config.accepted", "config.unknown-field"),
)
async def _check_unknown_nested_field(session: Session) -> None:
    variants = list(_with_nested_field(_parameters(session)))
    if not variants:
        raise NotOffered("the parameters of --config have no objects below the first level")
    for parameters in variants:
        await _expect_refusal(session, parameters)


def _with_nested_field(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield a copy for each object below the first level, in which that object has one more field."""
    if isinstance(value, dict):
        if depth:
            yield {**value, "conformanceUnknownField": True}
        for key, below in value.items():
            for changed in _with_nested_field(below, depth + 1):
                yield {**value, key: changed}
    elif isinstance(value, list):
        for place, below in enumerate(value):
            for changed in _with_nested_field(below, depth + 1):
                yield [*value[:place], changed, *value[place + 1 :]]


@AREA.check(
    "wrong-type",
    "a value of the wrong type is refused",
    promise="A field with a value of another type is an error.",
    source=_STRICT,
    cost="The driver crashes, or silently uses a default.",
)
async def _check_wrong_type(session: Session) -> None:
    parameters = _parameters(session)
    fields = [key for key in parameters if key not in ("apiVersion", "kind")]
    if not fields:
        raise NotOffered("the parameters of --config have no field besides apiVersion and kind")
    value = parameters[fields[0]]
    wrong: Any = [["wrong"]] if not isinstance(value, list) else "wrong"
    await _expect_refusal(session, {**parameters, fields[0]: wrong})


@AREA.check(
    "unknown-field-of-class",
    "an unknown field is refused in a class, too",
    promise="Configuration of a class is decoded as strictly as that of a claim.",
    source=_TYPES + " (DeviceClassSpec.config)",
    cost="The administrator's typing error counts for every claim of the class, silently.",
    rests_on=("config.accepted", "config.unknown-field"),
)
async def _check_unknown_field_of_class(session: Session) -> None:
    parameters = {**_parameters(session), "conformanceUnknownField": True}
    await _expect_refusal(session, parameters, "FromClass")


@AREA.check(
    "old-version",
    "an unknown version of its API is refused",
    promise="Parameters of the driver's kind in a version that it does not know are an error.",
    source=_TYPES + " (versioning)",
    cost="An older driver misreads the settings of a newer one.",
    recommended=True,
)
async def _check_old_version(session: Session) -> None:
    parameters = _parameters(session)
    group = str(parameters.get("apiVersion", "")).partition("/")[0]
    await _expect_refusal(session, {**parameters, "apiVersion": f"{group}/v0conformance9"})


@AREA.check(
    "odd-values",
    "odd parameters do not end the driver",
    promise="Parameters of an unexpected shape are an error of this claim only.",
    source=_TYPES + " (parameters can contain arbitrary data)",
    cost="Any user who may create a claim can take the node's devices down, again and again.",
    rests_on=("prepare.half-failed",),
)
async def _check_odd_values(session: Session) -> None:
    deep: Any = {}
    for _ in range(60):
        deep = {"kind": deep}
    for parameters in (
        {},
        {"kind": None, "apiVersion": 7},
        {"apiVersion": "v1", "kind": deep},
        {"x": _SECRET},
    ):
        await _answer(session, config(session.name, parameters))
        if not session.driver.alive():
            raise Breach(f"the driver ended when it read {str(parameters)[:60]}")
        if isinstance(answer := await _answer(session), str):
            raise Breach(f"after {str(parameters)[:60]} a claim without configuration fails: {answer}")


@AREA.check(
    "not-logged",
    "values of parameters are not in its log",
    promise="Parameters may hold secrets; the log does not show their values.",
    source="https://kubernetes.io/docs/concepts/configuration/secret/ (good practices); KEP-4381 (opaque parameters)",
    cost="Anyone who may read logs reads what users put into claims.",
    recommended=True,
)
async def _check_not_logged(session: Session) -> None:
    session.read_output()
    await _answer(session, config(session.name, {"password": f"{_SECRET}-logged"}))
    if f"{_SECRET}-logged" in session.driver.output():
        raise Breach("the value of an opaque parameter is in the log")


async def _answer(session: Session, *configs: Any) -> Any:
    async with session.claim([Result(session.pick()[0])], configs) as claim:
        return await session.try_prepare(claim)


async def _expect_refusal(session: Session, parameters: Any, source: str = "FromClaim") -> None:
    if isinstance(problem := await _answer(session), str):
        raise Unmet(problem)
    answer = await _answer(session, config(session.name, parameters, source=source))
    if not isinstance(answer, str):
        raise Breach(f"it accepted {str(parameters)[:100]}")
    if not session.driver.alive():
        raise Unmet("the driver ended")


def _parameters(session: Session) -> Any:
    if session.parameters is None:
        raise NotOffered("needs --config, with parameters that the driver takes")
    return session.parameters
