"""Validating and mutating webhooks: select them, call them in order, and process their responses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import orjson
from dra_shared.cel import types as t
from dra_shared.jsontypes import JsonObject
from dra_shared.log import logger

from dra_apiserver.equality import copy_object
from dra_apiserver.errors import (
    GroupResource,
    bad_request,
    forbidden_error,
    go_json,
    internal,
    quote,
    server_error,
)
from dra_apiserver.kinds.admissionregistration.dynamic.attributes import Attributes, Place
from dra_apiserver.kinds.admissionregistration.dynamic.environment import Environment
from dra_apiserver.kinds.admissionregistration.dynamic.expressions import (
    MATCH_BUDGET,
    Activation,
    MatchConditions,
)
from dra_apiserver.kinds.admissionregistration.dynamic.matching import matched_place
from dra_apiserver.kinds.admissionregistration.dynamic.patches import (
    NotConvertible,
    PatchFailed,
    apply_patch,
    settle,
)
from dra_apiserver.kinds.admissionregistration.dynamic.reinvocation import Reinvocation
from dra_apiserver.kinds.admissionregistration.dynamic.reviews import (
    Answer,
    InvalidReview,
    UnknownReview,
    known_version,
    question,
    read,
    rejection,
)
from dra_apiserver.offload import wait_for
from dra_apiserver.schema.jsontext import syntax_error
from dra_apiserver.webhook import CallError, Calls

# The keys of upstream's annotations for webhooks (plugin/webhook/mutating/dispatcher.go and its sibling).
_FAILED_OPEN = "failed-open."
_MUTATION = "mutation.webhook.admission.k8s.io/"
_PATCH = "patch.webhook.admission.k8s.io/"
_VALIDATING = "validating.webhook.admission.k8s.io/"

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook of a configuration, with its conditions compiled."""

    key: str
    configuration: str
    name: str
    spec: JsonObject
    match: JsonObject
    conditions: MatchConditions

    @property
    def ignore(self) -> bool:
        """True if a webhook that cannot be called is ignored."""
        return bool(self.spec.get("failurePolicy") == "Ignore")


def compile_webhooks(configuration: JsonObject) -> tuple[Webhook, ...]:
    """Compile the webhooks of a configuration, in order."""
    environment = Environment(composed=False)
    name = configuration["metadata"]["name"]
    made = []
    for index, spec in enumerate(configuration.get("webhooks") or ()):
        conditions = tuple(
            environment.compile(one.get("expression", ""), (t.BOOL,))
            for one in spec.get("matchConditions") or ()
        )
        # Missing rules match nothing for webhooks, while they match everything for policies.
        match = {**spec, "resourceRules": spec.get("rules") or [{}]}
        ignore = spec.get("failurePolicy") == "Ignore"
        key = f"{name}/{spec['name']}/{index}"
        made.append(Webhook(key, name, spec["name"], spec, match, MatchConditions(conditions, ignore)))
    return tuple(made)


def place_for(webhook: Webhook, attributes: Attributes) -> Place | None:
    """Return the resource under which the webhook is called; None if it is not.

    Raises:
        StatusError: the match conditions fail.
    """
    place = matched_place(webhook.match, attributes)
    if place is None or not webhook.conditions.conditions:
        return place
    matches, problem = webhook.conditions.match(Activation(attributes, place, {}, budget=MATCH_BUDGET))
    if problem:
        kind = attributes.target.kind
        raise forbidden_error(GroupResource(kind.group, kind.plural), attributes.name, problem)
    return place if matches else None


class _Unasked(Exception):
    """The webhook gave no valid response. `failurePolicy` decides about the request."""

    def __init__(self, webhook: Webhook, reason: str) -> None:
        super().__init__(f"failed calling webhook {quote(webhook.name)}: {reason}")


async def _ask(
    calls: Calls, webhook: Webhook, attributes: Attributes, place: Place, mutating: bool
) -> Answer:
    spec = webhook.spec
    if attributes.ctx.dry_run and spec.get("sideEffects") not in ("None", "NoneOnDryRun"):
        raise bad_request(f"admission webhook {quote(webhook.name)} does not support dry run")
    version = known_version(spec.get("admissionReviewVersions") or [])
    if version is None:
        text = "could not create admission objects: webhook does not accept known AdmissionReview versions"
        raise _Unasked(webhook, f"{text} (v1, v1beta1)")
    review = question(attributes, place, version)
    try:
        answer = await calls.post(spec.get("clientConfig") or {}, review, spec.get("timeoutSeconds") or 10)
    except CallError as error:
        raise _Unasked(webhook, f"failed to call webhook: {error}") from None
    try:
        found = read(answer, review["request"]["uid"], version, mutating)
    except UnknownReview as error:
        raise _Unasked(webhook, f"failed to call webhook: {error}") from None
    except InvalidReview as error:
        raise _Unasked(webhook, f"received invalid webhook response: {error}") from None
    for key, value in found.annotations.items():
        attributes.annotate(f"{webhook.name}/{key}", value)
    attributes.warn(found.warnings)
    if not found.allowed:
        raise rejection(webhook.name, found.result)
    return found


def _pass_over(webhook: Webhook, error: _Unasked, attributes: Attributes, key: str) -> None:
    if not webhook.ignore:
        raise internal(str(error))
    _log.warning("failed calling webhook, failing open", webhook=webhook.name, error=str(error))
    attributes.annotate(f"{_FAILED_OPEN}{key}", webhook.name)


def validate(webhooks: Sequence[Webhook], attributes: Attributes, calls: Calls) -> None:
    """Call all webhooks that match the request at once.

    Raises:
        StatusError: the first one, in order, that denies it.
    """
    asked = [
        (webhook, place) for webhook in webhooks if (place := place_for(webhook, attributes)) is not None
    ]
    if not asked:
        return
    outcomes = wait_for(_all(asked, attributes, calls))
    for index, ((webhook, _), outcome) in enumerate(zip(asked, outcomes, strict=True)):
        if isinstance(outcome, _Unasked):
            _pass_over(webhook, outcome, attributes, f"{_VALIDATING}round_0_index_{index}")
        elif isinstance(outcome, BaseException):
            raise outcome


async def _all(
    asked: list[tuple[Webhook, Place]], attributes: Attributes, calls: Calls
) -> list[Answer | BaseException]:
    return await asyncio.gather(
        *(_ask(calls, webhook, attributes, place, False) for webhook, place in asked), return_exceptions=True
    )


def mutate(
    webhooks: Sequence[Webhook], attributes: Attributes, calls: Calls, rounds: Reinvocation, again: bool
) -> bool:
    """Call one webhook after the other, each with the object of the previous ones. Return whether one changed it.

    Raises:
        StatusError: a webhook denies the request.
    """
    rounds.begin(attributes.obj, again)
    any_changed = False
    for index, webhook in enumerate(webhooks):
        place = place_for(webhook, attributes)
        if place is None or (again and webhook.key not in rounds.wanted):
            continue
        changed, turn = False, f"round_{int(again)}_index_{index}"
        by = {"configuration": webhook.configuration, "webhook": webhook.name}
        try:
            answer = wait_for(_ask(calls, webhook, attributes, place, True))
            changed, patch = _take(webhook, answer, attributes, place)
            if patch:
                shown = {
                    **by,
                    "patch": [dict(sorted(one.items())) for one in patch],
                    "patchType": "JSONPatch",
                }
                attributes.annotate(f"{_PATCH}{turn}", go_json(shown), detailed=True)
        except _Unasked as error:
            _pass_over(webhook, error, attributes, f"{_MUTATION}{turn}")
        finally:
            attributes.annotate(f"{_MUTATION}{turn}", go_json({**by, "mutated": changed}))
        if changed:
            any_changed = True
            rounds.record_change()
        if webhook.spec.get("reinvocationPolicy") == "IfNeeded":
            rounds.eligible.add(webhook.key)
    rounds.end(attributes.obj)
    return any_changed


def _take(
    webhook: Webhook, answer: Answer, attributes: Attributes, place: Place
) -> tuple[bool, list[JsonObject]]:
    """Apply the webhook's patch to the object. Return whether it changed, and the patch."""
    if not answer.patch:
        return False, []
    try:
        operations = orjson.loads(answer.patch)
    except orjson.JSONDecodeError:
        text = f"received undecodable patch in webhook response: {syntax_error(answer.patch)}"
        raise _Unasked(webhook, text) from None
    if not operations:
        return False, []
    before = attributes.convert(attributes.obj, place)
    if before is None:
        text = "attempted to modify the object, which is not supported for this operation"
        raise internal(f"admission webhook {quote(webhook.name)} {text}")
    if answer.patch_type != "JSONPatch":
        raise _Unasked(webhook, f"unsupported patch type {quote(answer.patch_type)}")
    try:
        changed = settle(apply_patch(copy_object(before), operations), attributes, place)
    except PatchFailed as error:
        raise internal(str(error)) from None
    except NotConvertible as error:
        raise server_error(str(error)) from None
    return changed, operations
