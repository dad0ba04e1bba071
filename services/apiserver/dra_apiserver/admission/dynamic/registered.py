"""Follows the objects that register policies and webhooks, and admits requests by them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import orjson

from dra_apiserver.admission.dynamic import mutating, validating, webhooks
from dra_apiserver.admission.dynamic.attributes import Attributes, places
from dra_apiserver.admission.dynamic.beside import beside
from dra_apiserver.admission.dynamic.calls import Calls
from dra_apiserver.admission.dynamic.matching import covers
from dra_apiserver.admission.dynamic.reinvocation import Reinvocation
from dra_apiserver.handlers.api import Api, Target
from dra_apiserver.http import Request
from dra_apiserver.storage import Put, Record, Remove, Resource
from dra_apiserver.storage.store import ChangeFunction
from dra_apiserver.strategy import Context

JsonObject = dict[str, Any]
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
# Reviews are never intercepted, and neither are the objects that intercept.
_EXEMPT = frozenset({"authentication.k8s.io", "authorization.k8s.io", _GROUP})


class _Changed(Exception):
    """The object is another one than that which was admitted."""


class Dynamic:
    """Every policy and webhook, in step with the store."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._compiled: dict[tuple[str, ...], Any] = {}
        self._changed = False
        self._called: dict[Resource, bool] = {}
        self.calls = Calls(api)
        self.mutating_policies: list[mutating.Policy] = []
        self.validating_policies: list[validating.Policy] = []
        self.mutating_webhooks: list[webhooks.Webhook] = []
        self.validating_webhooks: list[webhooks.Webhook] = []

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
        self._called = {}
        kept, self._compiled = self._compiled, {}
        self.mutating_policies = [
            self._made(kept, mutating.compile_policy, policy, bindings)
            for policy, bindings in self._bound("mutatingadmissionpolicies")
        ]
        self.validating_policies = [
            self._made(kept, validating.compile_policy, policy, bindings)
            for policy, bindings in self._bound("validatingadmissionpolicies")
        ]
        self.mutating_webhooks = self._webhooks(kept, "mutatingwebhookconfigurations")
        self.validating_webhooks = self._webhooks(kept, "validatingwebhookconfigurations")
        every = (
            self.mutating_policies,
            self.validating_policies,
            self.mutating_webhooks,
            self.validating_webhooks,
        )
        self._api.dynamic = self if any(every) else None

    def _stored(self, plural: str) -> list[JsonObject]:
        records = self._api.store.collection((_GROUP, plural)).records
        return [orjson.loads(records[key].data) for key in sorted(records)]

    def _made(
        self,
        kept: dict[tuple[str, ...], Any],
        compile: Callable[..., T],
        obj: JsonObject,
        *others: list[JsonObject],
    ) -> T:
        """What is compiled of these objects, once for as long as they stay as they are."""
        several = [obj, *(one for more in others for one in more)]
        key = (compile.__module__, *(one["metadata"]["resourceVersion"] for one in several))
        made: T = kept[key] if key in kept else compile(obj, *others)
        self._compiled[key] = made
        return made

    def _bound(self, plural: str) -> list[tuple[JsonObject, list[JsonObject]]]:
        """Each policy with its bindings; those without one do nothing."""
        by_policy: dict[str, list[JsonObject]] = {}
        for binding in self._stored(plural.replace("policies", "policybindings")):
            by_policy.setdefault(binding["spec"].get("policyName", ""), []).append(binding)
        policies = [(policy, policy["metadata"]["name"]) for policy in self._stored(plural)]
        return [(policy, by_policy[name]) for policy, name in policies if name in by_policy]

    def _webhooks(self, kept: dict[tuple[str, ...], Any], plural: str) -> list[webhooks.Webhook]:
        every = (self._made(kept, webhooks.compile_webhooks, one) for one in self._stored(plural))
        return [webhook for some in every for webhook in some]

    def of(
        self,
        request: Request,
        target: Target,
        options: Callable[[], JsonObject] | None = None,
        named: bool = True,
    ) -> Admission | None:
        """The admission of one request; None where nothing registered may judge it."""
        if self._changed:
            self._load()
        if target.kind.group in _EXEMPT or self._api.dynamic is None:
            return None
        return Admission(self, self._api, request, target, options, named)

    def _is_called(self, resource: Resource) -> bool:
        """Whether a webhook may be called for the resource's objects."""
        if self._changed:
            self._load()
        found = self._called.get(resource)
        if found is None:
            found = self._called[resource] = self._covered(resource)
        return found

    def _covered(self, resource: Resource) -> bool:
        if resource[0] in _EXEMPT:
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
            for rule in webhook.said.get("rules") or ()
        ]
        return any(covers(rule, place, part) for rule in rules for place, part in every)

    async def admit(
        self, request: Request, target: Target, obj: JsonObject, ctx: Context, operation: str
    ) -> None:
        """Have a request mutated and judged whose object is not stored: a Binding, an Eviction, what to run in a pod.

        Raises:
            StatusError: it is denied.
        """
        work = partial(self.judge, request, target, obj, None, ctx, operation)
        await self.run(target.resource, work)

    def judge(
        self,
        request: Request,
        target: Target,
        obj: JsonObject,
        old: JsonObject | None,
        ctx: Context,
        operation: str,
    ) -> None:
        """As `admit`, where webhooks may be waited for.

        Raises:
            StatusError: the request is denied.
        """
        registered = self.of(request, target)
        if registered is None:
            return
        if registered.mutate(obj, old, ctx, operation):
            registered.mutate(obj, old, ctx, operation, again=True)
        registered.validate(obj, old, ctx, operation)

    async def run(self, resource: Resource, work: Callable[[], T]) -> T:
        """Run what admits a request for the resource; it may call webhooks.

        Raises:
            Exception: what it raises.
        """
        return await beside(work) if self._is_called(resource) else work()

    async def write(
        self, resource: Resource, key: str, change: ChangeFunction, dry_run: bool = False
    ) -> Record | None:
        """As the store's `write`, for a change that may call webhooks: what they admit is written if it is still true.

        Raises:
            StatusError: the change is refused.
        """
        store = self._api.store
        if not self._is_called(resource):
            return await store.write(resource, key, change, dry_run)
        while True:
            seen = store.newest(resource, key)
            outcome = await beside(lambda seen=seen: change(seen))  # type: ignore[misc]  # bound to this turn's
            try:
                return await store.write(resource, key, _if_still(seen, outcome), dry_run)
            except _Changed:
                continue


def _if_still(seen: Record | None, outcome: Put | Remove | None) -> ChangeFunction:
    def change(current: Record | None) -> Put | Remove | None:
        if (current and current.revision) != (seen and seen.revision):
            raise _Changed
        return outcome

    return change


class Admission:
    """What was registered, for one request."""

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
            self._api.rbac,
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
        policies, hooks = self._dynamic.mutating_policies, self._dynamic.mutating_webhooks
        # What is deleted has nothing that a policy could change.
        policies = [] if operation == "DELETE" else policies
        if not policies and not hooks:
            return False
        kept = _set_aside(obj) if operation == "CREATE" and obj is not None else {}
        attributes = self._attributes(obj, old, ctx, operation)
        changed = mutating.mutate(policies, attributes, self._policy_rounds, again) if policies else False
        if hooks and webhooks.mutate(hooks, attributes, self._dynamic.calls, self._webhook_rounds, again):
            changed = True
        if obj is not None:
            obj["metadata"].update(kept)
        return changed

    def validate(self, obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
        """Have the request judged.

        Raises:
            StatusError: it is denied.
        """
        attributes = self._attributes(obj, old, ctx, operation)
        validating.validate(self._dynamic.validating_policies, attributes)
        if self._dynamic.validating_webhooks:
            webhooks.validate(self._dynamic.validating_webhooks, attributes, self._dynamic.calls)


def _set_aside(obj: JsonObject) -> JsonObject:
    """Take away what upstream's server only gives an object once it was mutated."""
    meta = obj["metadata"]
    names = ["uid", "creationTimestamp"]
    base = meta.get("generateName")
    if base and meta.get("name", "").startswith(base):
        names.append("name")
    return {name: meta.pop(name) for name in names if name in meta}
