"""The scope of configuration: the devices whose container edits it changes.

The checks need parameters that change what containers get.
"""

import contextlib
from collections.abc import Mapping, Sequence

import msgspec
from dra_shared.jsontypes import JsonObject

from dra_conformance.areas.config import AREA
from dra_conformance.check import Breach, NotOffered, NotShown, Stage, Unmet
from dra_conformance.claims import Result, config
from dra_conformance.edits import common_edits, edits_of
from dra_conformance.session import Session

__all__ = ["AREA"]


# The place of the edits that all devices of a claim share; no device has an empty name.
_COMMON = ""
_TYPES = "staging/src/k8s.io/api/resource/v1/types.go (DeviceAllocationConfiguration.requests, source)"


@AREA.check(
    "requests",
    "configuration applies to the requests that it names",
    promise="Configuration for the request r1 applies to r1, and not to r10.",
    source=_TYPES + "; https://github.com/kubernetes/kubernetes/pull/135098 (applied to the wrong request)",
    cost="A setting for one device, such as time-slicing, is made for the claim's other devices too.",
    rests_on=(
        "config.accepted",
        "prepare.several-devices",
        "cdi.defined",
        "cdi.right-device",
        "cdi.by-request",
    ),
)
async def _check_requests(session: Session) -> None:
    parameters = _parameters(session)
    first, second = session.pick(2)
    results = [Result(first, "r10"), Result(second, "r1")]
    plain = await _effects(session, results)
    whole = await _effects(session, results, config(session.name, parameters))
    _needs_effect(plain != await _effects(session, results), plain, whole)
    if plain[_COMMON] != whole[_COMMON]:
        raise NotShown("configuration changes a CDI device that several devices of the claim have")
    scoped = await _effects(session, results, config(session.name, parameters, ["r1"]))
    if scoped.get(first.name) != plain.get(first.name):
        raise Breach(f"configuration for r1 changes {first.name}, which is for r10")
    if scoped.get(second.name) != whole.get(second.name):
        raise Breach(f"configuration for r1 does not count for {second.name}, which is for r1")


@AREA.check(
    "alternatives",
    "configuration of one alternative applies to that one only",
    promise="Configuration for r0/large applies to the result r0/large; configuration for r0/small does not.",
    source="staging/src/k8s.io/dynamic-resource-allocation/resourceclaim (ConfigForResult);"
    " https://github.com/kubernetes-sigs/dra-example-driver/pull/257",
    cost="With firstAvailable a large device is set up as the small one, or not at all.",
    rests_on=(
        "config.accepted",
        "config.subrequests",
        "config.requests",
        "prepare.subrequests",
        "cdi.defined",
    ),
)
async def _check_alternatives(session: Session) -> None:
    parameters = _parameters(session)
    results = [Result(session.pick()[0], "r0/large")]
    plain = await _effects(session, results)
    given = await _effects(session, results, config(session.name, parameters))
    _needs_effect(plain != await _effects(session, results), plain, given)
    if await _effects(session, results, config(session.name, parameters, ["r0/large"])) != given:
        raise Breach("configuration for r0/large is ignored for r0/large")
    if await _effects(session, results, config(session.name, parameters, ["r0/small"])) != plain:
        raise Breach("configuration for r0/small counts for r0/large")


@AREA.check(
    "request-of-alternatives",
    "configuration of a request changes its chosen alternative",
    promise="Configuration for the request r0 changes what containers get with r0/large, as configuration for all"
    " requests does.",
    source="staging/src/k8s.io/dynamic-resource-allocation/resourceclaim (ConfigForResult);"
    " https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/1356",
    cost="With firstAvailable the user's settings are ignored, silently.",
    rests_on=("config.accepted", "config.subrequests", "config.requests", "config.alternatives"),
)
async def _check_request_of_alternatives(session: Session) -> None:
    parameters = _parameters(session)
    results = [Result(session.pick()[0], "r0/large")]
    plain = await _effects(session, results)
    given = await _effects(session, results, config(session.name, parameters))
    _needs_effect(plain != await _effects(session, results), plain, given)
    if await _effects(session, results, config(session.name, parameters, ["r0"])) != given:
        raise Breach("configuration for r0 does not change what r0/large gets")


@AREA.check(
    "precedence",
    "a claim's configuration overrides its class's",
    promise="If class and claim both configure a device, the claim's parameters apply.",
    source=_TYPES + "; https://github.com/kubernetes-sigs/dra-example-driver/pull/54",
    cost="The administrator's default for a class cannot be changed by any user.",
    rests_on=("config.accepted", "config.defaults", "cdi.defined"),
)
async def _check_precedence(session: Session) -> None:
    parameters = _parameters(session)
    bare = {key: parameters[key] for key in ("apiVersion", "kind") if key in parameters}
    results = [Result(session.pick()[0])]
    default = config(session.name, bare, source="FromClass")
    plain = await _effects(session, results, default)
    given = await _effects(session, results, config(session.name, parameters))
    _needs_effect(plain != await _effects(session, results, default), plain, given)
    if await _effects(session, results, default, config(session.name, parameters)) != given:
        raise Breach("with defaults from the class the claim's parameters do not count")
    other = await _other_parameters(session, results, given)
    if other is not None:
        of_class = config(session.name, other, source="FromClass")
        if await _effects(session, results, of_class, config(session.name, parameters)) != given:
            raise Breach("with other values from the class the claim's parameters do not count")


@AREA.check(
    "class-kept",
    "another driver's configuration does not replace the class's",
    promise="The class's configuration of a device counts unless the claim configures the same driver's device: entries"
    " of the claim for other drivers do not matter.",
    source=_TYPES,
    cost="A claim for two vendors loses the administrator's settings for one of them.",
    rests_on=("config.other-drivers", "config.precedence"),
)
async def _check_class_kept(session: Session) -> None:
    parameters = _parameters(session)
    results = [Result(session.pick()[0])]
    of_class = config(session.name, parameters, source="FromClass")
    other = config("other.example.com", {"apiVersion": "other.example.com/v1", "kind": "Theirs", "speed": 9})
    plain = await _effects(session, results)
    given = await _effects(session, results, of_class)
    _needs_effect(plain != await _effects(session, results), plain, given)
    if await _effects(session, results, of_class, other) != given:
        raise Breach("with configuration of another driver in the claim, that of the class does not count")


@AREA.check(
    "last-counts",
    "the last of several entries counts",
    promise="If a claim configures a device twice, the later entry applies, as in dra-example-driver.",
    source=_TYPES + "; https://github.com/kubernetes-sigs/dra-example-driver/tree/main/cmd"
    "/dra-example-kubeletplugin (prepareDevices: the list is searched from its end)",
    cost="Users who add an entry to override another one get the first.",
    recommended=True,
    rests_on=("config.accepted", "config.defaults", "config.precedence"),
)
async def _check_last_counts(session: Session) -> None:
    parameters = _parameters(session)
    bare = {key: parameters[key] for key in ("apiVersion", "kind") if key in parameters}
    results = [Result(session.pick()[0])]
    default = config(session.name, bare)
    plain = await _effects(session, results, default)
    given = await _effects(session, results, config(session.name, parameters))
    _needs_effect(plain != await _effects(session, results, default), plain, given)
    if await _effects(session, results, default, config(session.name, parameters)) != given:
        raise Breach("the first of two entries counts")


@AREA.check(
    "undone",
    "configuration ends with its claim",
    promise="What one claim's configuration sets is gone when the claim is unprepared: the next claim for the device,"
    " which has none, gets the driver's defaults.",
    source=_TYPES
    + "; https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/1183 (reset on unprepare)",
    cost="A pod runs with the sharing, or the limits, that somebody else asked for.",
    stage=Stage.RESTART,
    rests_on=("config.accepted", "prepare.succeeds", "unprepare.succeeds", "cdi.defined"),
)
async def _check_undone(session: Session) -> None:
    parameters = _parameters(session)
    # Start from nothing, so that no earlier claim can have left a setting behind.
    await session.start_from_nothing()
    results = [Result(session.pick()[0])]
    plain = await _effects(session, results)
    varies = plain != await _effects(session, results)
    given = await _effects(session, results, config(session.name, parameters))
    _needs_effect(varies, plain, given)
    if await _effects(session, results) != plain:
        raise Breach("a claim without configuration gets the configuration of the claim before it")


async def _other_parameters(
    session: Session, results: Sequence[Result], given: Mapping[str, str]
) -> JsonObject | None:
    """Return parameters that the driver accepts and that have another effect than those of --config, or None."""
    parameters = _parameters(session)
    for name, value in parameters.items():
        if name in ("apiVersion", "kind"):
            continue
        for other in _other_values(value):
            changed = {**parameters, name: other}
            with contextlib.suppress(Unmet):
                if await _effects(session, results, config(session.name, changed)) != given:
                    return changed
    return None


def _other_values(value: object) -> Sequence[object]:
    """Return values of the same type, which the driver may accept."""
    match value:
        case bool():
            return (not value,)
        case int():
            return (value + 1, value - 1)
        case str():
            return (f"{value}x",)
    return ()


def _needs_effect(varies: bool, plain: Mapping[str, str], given: Mapping[str, str]) -> None:
    if varies:
        raise NotShown("containers get different edits each time")
    if plain == given:
        raise NotShown("with the parameters of --config containers get the same as without")


async def _effects(session: Session, results: Sequence[Result], *configs: JsonObject) -> dict[str, str]:
    """Return the container edits of each device of such a claim, with the claim's names replaced by fixed ones."""
    async with session.claim(results, configs) as claim:
        answer = await session.prepare_or_skip(claim)
        edits = {**edits_of(session, answer), _COMMON: common_edits(session, answer)}
        return {
            name: msgspec.json.encode(found).decode().replace(claim.uid, "UID").replace(claim.name, "NAME")
            for name, found in edits.items()
        }


def _parameters(session: Session) -> JsonObject:
    if session.parameters is None:
        raise NotOffered("needs --config, with parameters that the driver takes")
    return session.parameters
