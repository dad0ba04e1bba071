"""Run the admission plugins of a request in order (apiserver's `pkg/admission/chain.go`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dra_shared.jsontypes import JsonObject

from dra_apiserver.kindkit.behaviour import Plugin
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kindkit.strategy import Context

if TYPE_CHECKING:
    from dra_apiserver.http import Request
    from dra_apiserver.storage import Resource
    from dra_apiserver.target import Target


class Registered(Protocol):
    """The interface of the cluster's policies and webhooks that apply to one request."""

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

    def validate(self, obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
        """Let policies and webhooks validate the request.

        Raises:
            StatusError: the request is denied.
        """


class _NothingRegistered:
    """Used for a request to which no policy and no webhook applies."""

    def mutate(
        self,
        obj: JsonObject | None,
        old: JsonObject | None,
        ctx: Context,
        operation: str,
        again: bool = False,
    ) -> bool:
        return False

    def validate(self, obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
        pass


NOTHING_REGISTERED: Registered = _NothingRegistered()


class Dynamic(Protocol):
    """The interface of all policies and webhooks of the cluster. There is one object for each server."""

    @property
    def loops(self) -> bool:
        """True if an expression loops over lists, so that its evaluation may take long for any object."""

    async def ready(self) -> None:
        """Wait a short time until policies and webhooks that were just stored are active."""

    def calls(self, resource: Resource) -> bool:
        """True if a webhook may be called for the resource's objects."""

    def of(
        self,
        request: Request,
        target: Target,
        options: Callable[[], JsonObject] | None = None,
        named: bool = True,
    ) -> Registered:
        """Return the policies and webhooks that apply to a request.

        `options` are those of a delete. `named` is false for a request about many objects, such as a
        deletecollection.
        """


class NoDynamic:
    """Dynamic admission for a server without policies and webhooks."""

    loops = False

    async def ready(self) -> None:
        return

    def calls(self, resource: Resource) -> bool:
        return False

    def of(
        self,
        request: Request,
        target: Target,
        options: Callable[[], JsonObject] | None = None,
        named: bool = True,
    ) -> Registered:
        return NOTHING_REGISTERED


class Chain(NamedTuple):
    """All plugins that may change or reject a write: those of the kind, and the policies and webhooks of the
    cluster.
    """

    registered: Registered = NOTHING_REGISTERED

    def mutate(self, obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
        """Run the mutating plugins. `operation` is CREATE, UPDATE, DELETE or CONNECT.

        Raises:
            StatusError: a plugin rejects the request.
        """
        plugins = ctx.kind.admission.mutating
        if plugins:
            _run(plugins, obj, old, ctx, operation)
        if self.registered is NOTHING_REGISTERED:
            return
        if self.registered.mutate(obj, old, ctx, operation):
            _run(plugins, obj, old, ctx, operation)
            self.registered.mutate(obj, old, ctx, operation, again=True)

    def validate(self, obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
        """Run the validating plugins.

        Raises:
            StatusError: a plugin rejects the request.
        """
        kind = ctx.kind
        if kind.admission.validating:
            _run(kind.admission.validating, obj, old, ctx, operation)
        if self.registered is not NOTHING_REGISTERED:
            self.registered.validate(obj, old, ctx, operation)
        if kind.admission.quota:
            _run(kind.admission.quota, obj, old, ctx, operation)


def _run(
    plugins: Sequence[Plugin], obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str
) -> None:
    for name, plugin in plugins:
        if name not in ctx.disabled_plugins:
            plugin(obj, old, ctx, operation)


def disabled_plugins(text: str, kinds: Iterable[Kind]) -> frozenset[str]:
    """Return the plugins of these kinds that are named in `text`, the value of `--disable-admission-plugins`.

    Raises:
        ValueError: a plugin does not exist, or cannot be turned off here.
    """
    known = {
        plugin
        for kind in kinds
        for plugin, _ in (*kind.admission.mutating, *kind.admission.validating, *kind.admission.quota)
    }
    names = frozenset(filter(None, (name.strip() for name in text.split(","))))
    for name in sorted(names - known):
        raise ValueError(f'disable-admission-plugins plugin "{name}" is unknown')
    return names
