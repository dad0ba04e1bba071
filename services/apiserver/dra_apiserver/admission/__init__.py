"""Admission: what is refused or filled in whatever the kind's own strategy says.

A kind's `mutating_admission` runs on a new or changed object before its strategy, its `validating_admission` after it.
A plugin is called with the object in the stored version (None for a delete), the old one (None for a create), the
request's context and the operation, and refuses by raising StatusError. What is registered in the cluster, policies and
webhooks, comes after the mutating plugins, and before the quota. A plugin has upstream's name, by which
`--disable-admission-plugins` turns it off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dra_apiserver.kinds.kind import Admit, Kind, Plugin
from dra_apiserver.kinds.strategy import Context

if TYPE_CHECKING:
    from dra_apiserver.kinds.admissionregistration.dynamic.registered import Admission

JsonObject = dict[str, Any]


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


def mutate(
    obj: JsonObject | None,
    old: JsonObject | None,
    ctx: Context,
    operation: str,
    registered: Admission | None = None,
) -> None:
    """Run the mutating plugins; `operation` is CREATE, UPDATE, DELETE or CONNECT.

    Raises:
        StatusError: one of them refuses.
    """
    plugins = _enabled(ctx.kind.mutating_admission, ctx)
    for plugin in plugins:
        plugin(obj, old, ctx, operation)
    if registered is not None and registered.mutate(obj, old, ctx, operation):
        for plugin in plugins:
            plugin(obj, old, ctx, operation)
        registered.mutate(obj, old, ctx, operation, again=True)


def validate(
    obj: JsonObject | None,
    old: JsonObject | None,
    ctx: Context,
    operation: str,
    registered: Admission | None = None,
) -> None:
    """Run the validating plugins.

    Raises:
        StatusError: one of them refuses.
    """
    for plugin in _enabled(ctx.kind.validating_admission, ctx):
        plugin(obj, old, ctx, operation)
    if registered is not None:
        registered.validate(obj, old, ctx, operation)
    for plugin in _enabled(ctx.kind.quota_admission, ctx):
        plugin(obj, old, ctx, operation)


def _enabled(plugins: Sequence[Plugin], ctx: Context) -> list[Admit]:
    return [plugin for name, plugin in plugins if name not in ctx.disabled_plugins]
