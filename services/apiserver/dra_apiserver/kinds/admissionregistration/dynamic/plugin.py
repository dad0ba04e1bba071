"""The dynamic admission plugins: policies and webhooks, as registered by objects of the cluster.

Upstream has a plugin for each kind of such objects (`pkg/admission/plugin/policy`,
`pkg/admission/plugin/webhook`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, TypeVar

import orjson
from dra_shared.jsontypes import JsonObject

from dra_apiserver.admission.chain import NOTHING_REGISTERED, Registered
from dra_apiserver.api import Api
from dra_apiserver.http import Request
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.admissionregistration.dynamic import mutating, validating, webhooks
from dra_apiserver.kinds.admissionregistration.dynamic.attributes import Attributes, places
from dra_apiserver.kinds.admissionregistration.dynamic.matching import covers
from dra_apiserver.kinds.admissionregistration.dynamic.reinvocation import Reinvocation
from dra_apiserver.kinds.admissionregistration.strategy import EXCLUDES_REVIEWS, REVIEWS
from dra_apiserver.rest.meta import generate_name
from dra_apiserver.storage import Resource
from dra_apiserver.target import Target
from dra_apiserver.webhook import Calls

T = TypeVar("T")

_GROUP = "admissionregistration.k8s.io"
_KINDS = (
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
)
# The maximum number of seconds that a request waits for policies that are being compiled.
_READY_TIMEOUT = 0.1
# A macro or function of CEL that loops over a list or map, as written in JSON.
_LOOP = re.compile(rb"\b(?:all|exists\w*|map|filter|transform\w+|sort\w*|distinct|sum|min|max)\(")


class _Registered:
    """The policies and webhooks that are stored at one moment, compiled."""

    def __init__(self) -> None:
        self.compiled: dict[tuple[str, ...], Any] = {}
        self.loops = False
        self.mutating_policies: list[mutating.Policy] = []
        self.validating_policies: list[validating.Policy] = []
        self.mutating_webhooks: list[webhooks.Webhook] = []
        self.validating_webhooks: list[webhooks.Webhook] = []


class Dynamic:
    """Every policy and webhook, kept in sync with the store."""

    def __init__(self, api: Api, calls: Calls) -> None:
        self._api = api
        self._compiled: dict[tuple[str, ...], Any] = {}
        self._changed = False
        self._loading: asyncio.Task[None] | None = None
        self._called: dict[Resource, bool] = {}
        self._any = False
        #: True if an expression loops over lists, so that its evaluation may take long for any object.
        self.loops = False
        self.client = calls
        self.mutating_policies: list[mutating.Policy] = []
        self.validating_policies: list[validating.Policy] = []
        self.mutating_webhooks: list[webhooks.Webhook] = []
        self.validating_webhooks: list[webhooks.Webhook] = []

    def follow(self) -> None:
        """Compile the stored objects, and follow changes from now on."""
        for plural in _KINDS:
            self._api.store.collection((_GROUP, plural)).listen(self._on_change)
        self._take(self._read())

    def _on_change(self) -> None:
        self._changed = True
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())

    async def _load(self) -> None:
        try:
            while self._changed:
                self._changed = False
                self._take(await asyncio.to_thread(self._read))
        finally:
            self._loading = None

    async def ready(self) -> None:
        """Wait until the stored objects are compiled, or for a short time.

        The previous ones stay active until then.
        """
        if self._loading is not None:
            await asyncio.wait([self._loading], timeout=_READY_TIMEOUT)

    def _read(self) -> _Registered:
        """Compile all stored policies and webhooks, except those that have not changed since they were compiled."""
        made = _Registered()
        made.mutating_policies = [
            self._compile(made, mutating.compile_policy, policy, bindings)
            for policy, bindings in self._policies_with_bindings(made, "mutatingadmissionpolicies")
        ]
        made.validating_policies = [
            self._compile(made, validating.compile_policy, policy, bindings)
            for policy, bindings in self._policies_with_bindings(made, "validatingadmissionpolicies")
        ]
        made.mutating_webhooks = self._webhooks(made, "mutatingwebhookconfigurations")
        made.validating_webhooks = self._webhooks(made, "validatingwebhookconfigurations")
        return made

    def _take(self, made: _Registered) -> None:
        self._called = {}
        self._compiled = made.compiled
        self.mutating_policies, self.validating_policies = made.mutating_policies, made.validating_policies
        self.mutating_webhooks, self.validating_webhooks = made.mutating_webhooks, made.validating_webhooks
        self._any = bool(
            self.mutating_policies
            or self.validating_policies
            or self.mutating_webhooks
            or self.validating_webhooks
        )
        self.loops = self._any and made.loops

    def _parse_stored(self, made: _Registered, plural: str) -> list[JsonObject]:
        records = sorted(self._api.store.collection((_GROUP, plural)).records.copy().items())
        made.loops = made.loops or any(_LOOP.search(record.data) for _, record in records)
        return [orjson.loads(record.data) for _, record in records]

    def _compile(
        self,
        registered: _Registered,
        compile: Callable[..., T],
        obj: JsonObject,
        *others: list[JsonObject],
    ) -> T:
        """Compile these objects, once for each of their revisions."""
        several = [obj, *(one for more in others for one in more)]
        key = (compile.__module__, *(one["metadata"]["resourceVersion"] for one in several))
        made: T = self._compiled[key] if key in self._compiled else compile(obj, *others)
        registered.compiled[key] = made
        return made

    def _policies_with_bindings(
        self, made: _Registered, plural: str
    ) -> list[tuple[JsonObject, list[JsonObject]]]:
        """Return each policy with its bindings. Policies without a binding have no effect, and are left out."""
        by_policy: dict[str, list[JsonObject]] = {}
        for binding in self._parse_stored(made, plural.replace("policies", "policybindings")):
            by_policy.setdefault(binding["spec"].get("policyName", ""), []).append(binding)
        policies = [(policy, policy["metadata"]["name"]) for policy in self._parse_stored(made, plural)]
        return [(policy, by_policy[name]) for policy, name in policies if name in by_policy]

    def _webhooks(self, made: _Registered, plural: str) -> list[webhooks.Webhook]:
        stored = self._parse_stored(made, plural)
        every = (self._compile(made, webhooks.compile_webhooks, one) for one in stored)
        return [webhook for some in every for webhook in some]

    def of(
        self,
        request: Request,
        target: Target,
        options: Callable[[], JsonObject] | None = None,
        named: bool = True,
    ) -> Registered:
        """Return the admission of one request."""
        if not self._any or self._is_exempt(target.resource):
            return NOTHING_REGISTERED
        return _Admission(self, self._api, request, target, options, named)

    def calls(self, resource: Resource) -> bool:
        """True if a webhook may be called for the resource's objects."""
        if not self._any:
            return False
        found = self._called.get(resource)
        if found is None:
            found = self._called[resource] = self._is_covered(resource)
        return found

    def _is_exempt(self, resource: Resource) -> bool:
        """True if policies and webhooks are never applied to the resource, such as their own configuration."""
        excludes_reviews = self._api.features.enabled(EXCLUDES_REVIEWS)
        return resource[0] == _GROUP or (excludes_reviews and resource in REVIEWS)

    def _is_covered(self, resource: Resource) -> bool:
        if self._is_exempt(resource):
            return False
        kinds = [info for info in self._api.registry if info.storage == resource]
        every = [
            (place, part)
            for info in kinds
            for part in ("", *info.subresources)
            for place in places(self._api.registry, Target(info, info.storage_version, subresource=part))
        ]
        rules = [
            rule
            for webhook in (*self.mutating_webhooks, *self.validating_webhooks)
            for rule in webhook.spec.get("rules") or ()
        ]
        return any(covers(rule, place, part) for rule in rules for place, part in every)


class _Admission:
    """The admission of one request by the registered policies and webhooks."""

    def __init__(
        self,
        dynamic: Dynamic,
        api: Api,
        request: Request,
        target: Target,
        options: Callable[[], JsonObject] | None,
        named: bool,
    ) -> None:
        self._dynamic = dynamic
        self._api = api
        self._request = request
        self._target = target
        self._options = options
        self._named = named
        self._is_review = target.resource in REVIEWS
        self._places = places(api.registry, target)
        self._policy_rounds = Reinvocation()
        self._webhook_rounds = Reinvocation()

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
            self._api.authorizer,
        )

    def mutate(
        self,
        obj: JsonObject | None,
        old: JsonObject | None,
        ctx: Context,
        operation: str,
        again: bool = False,
    ) -> bool:
        """Let policies and webhooks change the object. Return whether it changed.

        Raises:
            StatusError: the request is denied.
        """
        policies, hooks = self._dynamic.mutating_policies, self._dynamic.mutating_webhooks
        # Policies cannot change a deleted object, and are not called for reviews. Webhooks are.
        policies = [] if operation == "DELETE" or self._is_review else policies
        if not policies and not hooks:
            return False
        named = bool(self._target.name)
        kept = _set_aside(obj, named) if operation == "CREATE" and obj is not None else {}
        attributes = self._attributes(obj, old, ctx, operation)
        changed = mutating.mutate(policies, attributes, self._policy_rounds, again) if policies else False
        if hooks and webhooks.mutate(hooks, attributes, self._dynamic.client, self._webhook_rounds, again):
            changed = True
        # Restore only if fields were removed: the options of a proxy request do not even have metadata.
        if obj is not None and kept:
            _restore(obj["metadata"], kept)
        return changed

    def validate(self, obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
        """Let policies and webhooks validate the request.

        Raises:
            StatusError: the request is denied.
        """
        attributes = self._attributes(obj, old, ctx, operation)
        if not self._is_review:
            validating.validate(self._dynamic.validating_policies, attributes)
        if self._dynamic.validating_webhooks:
            webhooks.validate(self._dynamic.validating_webhooks, attributes, self._dynamic.client)


def _set_aside(obj: JsonObject, named: bool) -> JsonObject:
    """Remove and return the fields that upstream's server only sets after mutation.

    The name is one of them unless the client gave it (``named``).
    """
    meta = obj["metadata"]
    names = ["uid", "creationTimestamp"]
    base = meta.get("generateName")
    if base and not named:
        names.append("name")
    kept = {name: meta.pop(name) for name in names if name in meta}
    return kept | ({"generateName": base} if "name" in kept else {})


def _restore(meta: JsonObject, kept: JsonObject) -> None:
    """Set the removed fields again. A name is only generated if there is still none."""
    base, name, wanted = kept.pop("generateName", ""), meta.get("name"), meta.get("generateName")
    if name:
        kept.pop("name", None)
    elif base and wanted != base:
        kept["name"] = generate_name(wanted) if wanted else ""
    meta.update(kept)
