"""Follows the objects that register policies and webhooks, and admits requests by them."""

from __future__ import annotations

from typing import Any

import orjson

from dra_apiserver.admission.dynamic import validating
from dra_apiserver.admission.dynamic.attributes import Attributes, places
from dra_apiserver.handlers.api import Api, Target
from dra_apiserver.http import Request
from dra_apiserver.strategy import Context

JsonObject = dict[str, Any]

_GROUP = "admissionregistration.k8s.io"
_KINDS = (
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
)
# Reviews are never intercepted, and neither are the objects that intercept.
_EXEMPT = frozenset({"authentication.k8s.io", "authorization.k8s.io", _GROUP})


class Dynamic:
    """Every policy and webhook, in step with the store."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._policies: list[validating.Policy] = []
        self._compiled: dict[tuple[str, ...], Any] = {}
        self._changed = False

    def follow(self) -> None:
        """Take what is stored, and hear of changes from now on."""
        for plural in _KINDS:
            self._api.store.collection((_GROUP, plural)).listen(self._hear)
        self._load()

    def _hear(self) -> None:
        # What a change means is found out by the first request that it may concern.
        self._changed = True
        self._api.dynamic = self

    def _load(self) -> None:
        self._changed = False
        stored = {plural: self._stored(plural) for plural in _KINDS}
        kept, self._compiled = self._compiled, {}
        self._policies = [
            self._compile(kept, "validating", policy, bindings)
            for policy, bindings in _bound(
                stored["validatingadmissionpolicies"], stored["validatingadmissionpolicybindings"]
            )
        ]
        self._api.dynamic = self if self._policies else None

    def _stored(self, plural: str) -> list[JsonObject]:
        records = self._api.store.collection((_GROUP, plural)).records
        return [orjson.loads(records[key].data) for key in sorted(records)]

    def _compile(
        self,
        kept: dict[tuple[str, ...], Any],
        kind: str,
        policy: JsonObject,
        bindings: list[JsonObject],
    ) -> Any:
        revisions = tuple(one["metadata"]["resourceVersion"] for one in (policy, *bindings))
        key = (kind, *revisions)
        made = kept.get(key)
        if made is None:
            made = validating.compile_policy(policy, bindings)
        self._compiled[key] = made
        return made

    def of(
        self, request: Request, target: Target, options: JsonObject | None = None, named: bool = True
    ) -> Admission | None:
        """The admission of one request; None where nothing registered may judge it."""
        if self._changed:
            self._load()
        if target.kind.group in _EXEMPT or self._api.dynamic is None:
            return None
        return Admission(self, self._api, request, target, options, named)

    @property
    def policies(self) -> list[validating.Policy]:
        """The validating policies that have bindings."""
        return self._policies


def _bound(
    policies: list[JsonObject], bindings: list[JsonObject]
) -> list[tuple[JsonObject, list[JsonObject]]]:
    """Each policy with its bindings; those without one do nothing."""
    by_policy: dict[str, list[JsonObject]] = {}
    for binding in bindings:
        by_policy.setdefault(binding["spec"].get("policyName", ""), []).append(binding)
    return [
        (policy, by_policy[policy["metadata"]["name"]])
        for policy in policies
        if policy["metadata"]["name"] in by_policy
    ]


class Admission:
    """What was registered, for one request."""

    def __init__(
        self,
        dynamic: Dynamic,
        api: Api,
        request: Request,
        target: Target,
        options: JsonObject | None,
        named: bool,
    ) -> None:
        self._dynamic = dynamic
        self._api = api
        self._request = request
        self._target = target
        self._options = options
        self._named = named
        self._places = places(api.registry, target)

    def _attributes(
        self, obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str
    ) -> Attributes:
        return Attributes(
            self._api.registry,
            self._request,
            self._target,
            ctx,
            operation,
            obj,
            old,
            self._places,
            self._options,
            self._named,
        )

    def mutate(
        self,
        obj: JsonObject | None,
        old: JsonObject | None,
        ctx: Context,
        operation: str,
        again: bool = False,
    ) -> bool:
        """Have the object changed; whether it was.

        Raises:
            StatusError: the request is denied.
        """
        return False

    def validate(self, obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
        """Have the request judged.

        Raises:
            StatusError: it is denied.
        """
        validating.validate(self._dynamic.policies, self._attributes(obj, old, ctx, operation))
