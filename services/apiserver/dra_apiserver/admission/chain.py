"""The admission plugins of a request, one after the other (apiserver's `pkg/admission/chain.go`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dra_apiserver.kindkit.kind import Kind, Plugin
from dra_apiserver.kindkit.strategy import Context

if TYPE_CHECKING:
    from dra_apiserver.http import Request
    from dra_apiserver.storage import Resource
    from dra_apiserver.target import Target

JsonObject = dict[str, Any]


class Registered(Protocol):
    """The policies and webhooks of the cluster that may judge one request."""

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

    def validate(self, obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
        """Have the request judged.

        Raises:
            StatusError: it is denied.
        """


class _NothingRegistered:
    """What a request meets where no policy and no webhook is for it."""

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
    """All policies and webhooks of the cluster, for the server's life."""

    @property
    def loops(self) -> bool:
        """Whether an expression goes through lists, and so may take long whatever it is asked about."""

    async def ready(self) -> None:
        """Wait for what was just stored to be in force, but not for long."""

    def calls(self, resource: Resource) -> bool:
        """Whether a webhook may be called for the resource's objects."""

    def of(
        self,
        request: Request,
        target: Target,
        options: Callable[[], JsonObject] | None = None,
        named: bool = True,
    ) -> Registered:
        """Those that may judge a request; `options` are a delete's, `named` is false for one about many objects."""


class NoDynamic:
    """Dynamic admission of a server that has none."""

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
    """All that may change or refuse a write: the plugins of the kind, and what is registered in the cluster."""

    registered: Registered = NOTHING_REGISTERED

    def mutate(self, obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
        """Run the mutating plugins; `operation` is CREATE, UPDATE, DELETE or CONNECT.

        Raises:
            StatusError: one of them refuses.
        """
        plugins = ctx.kind.mutating_admission
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
            StatusError: one of them refuses.
        """
        kind = ctx.kind
        if kind.validating_admission:
            _run(kind.validating_admission, obj, old, ctx, operation)
        if self.registered is not NOTHING_REGISTERED:
            self.registered.validate(obj, old, ctx, operation)
        if kind.quota_admission:
            _run(kind.quota_admission, obj, old, ctx, operation)


def _run(
    plugins: Sequence[Plugin], obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str
) -> None:
    for name, plugin in plugins:
        if name not in ctx.disabled_plugins:
            plugin(obj, old, ctx, operation)


def disabled_plugins(text: str, kinds: Iterable[Kind]) -> frozenset[str]:
    """The plugins of these kinds that `--disable-admission-plugins` names, which is a list with commas.

    Raises:
        ValueError: there is no such plugin, or it can't be turned off here.
    """
    known = {
        plugin
        for kind in kinds
        for plugin, _ in (*kind.mutating_admission, *kind.validating_admission, *kind.quota_admission)
    }
    names = frozenset(filter(None, (name.strip() for name in text.split(","))))
    for name in sorted(names - known):
        raise ValueError(f'disable-admission-plugins plugin "{name}" is unknown')
    return names
