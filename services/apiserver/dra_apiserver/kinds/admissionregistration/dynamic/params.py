"""The parameter objects that a binding passes to its policy (apiserver's plugin/policy/generic)."""

from __future__ import annotations

import orjson
from dra_shared.jsontypes import JsonObject
from dra_shared.selectors import SelectorError, label_selector

from dra_apiserver.conversion import convert
from dra_apiserver.equality import copy_object
from dra_apiserver.errors import internal
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.registry import Registry


class ConfigurationError(Exception):
    """A policy or a binding can't be used. The message is upstream's."""


def kind_of_params(registry: Registry, wanted: JsonObject | None) -> tuple[Kind, str] | None:
    """Return the kind of a policy's parameters and its version; None if it has none.

    Raises:
        ConfigurationError: there is no such kind.
    """
    if wanted is None:
        return None
    group, slash, version = wanted["apiVersion"].rpartition("/")
    group, version = (group, version) if slash else ("", wanted["apiVersion"])
    for info in registry:
        if (info.group, info.kind) == (group, wanted["kind"]) and version in info.versions:
            return info, version
    name = f"{group}/{version}, Kind={wanted['kind']}"
    raise ConfigurationError(f"failed to find resource referenced by paramKind: '{name}'")


def collect(
    kind: tuple[Kind, str] | None, reference: JsonObject | None, namespace: str, ctx: Context
) -> list[JsonObject | None]:
    """Return the parameters. The policy is evaluated for each of them.

    Raises:
        ConfigurationError: the binding selects none although it must, or is invalid.
    """
    if kind is None or reference is None:
        return [None]
    info, version = kind
    within = reference.get("namespace") or ""
    if info.namespaced:
        within = within or namespace
        if not within:
            text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            raise ConfigurationError(text)
    elif within:
        raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    found: list[JsonObject | None] = [
        convert(info, obj, version) for obj in _select(info, reference, within, ctx)
    ]
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        text = "no params found for policy binding with `Deny` parameterNotFoundAction"
        raise ConfigurationError(text)
    return found


def _select(info: Kind, reference: JsonObject, namespace: str, ctx: Context) -> list[JsonObject]:
    group, plural = info.storage
    if reference.get("name"):
        if reference.get("selector") is not None:
            raise ConfigurationError("paramRef.name and paramRef.selector are mutually exclusive")
        found = ctx.lookup(group, plural, namespace, reference["name"])
        return [] if found is None else [copy_object(found)]
    if reference.get("selector") is None:
        raise ConfigurationError("one of name or selector must be provided")
    try:
        selector = label_selector(reference["selector"])
    except SelectorError as error:
        raise internal(str(error)) from None
    every = map(orjson.loads, ctx.listing(group, plural, namespace))
    return [one for one in every if selector.matches(one["metadata"].get("labels") or {})]
