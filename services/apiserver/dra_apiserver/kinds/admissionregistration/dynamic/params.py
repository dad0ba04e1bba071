"""The objects that a binding hands to its policy (apiserver's plugin/policy/generic)."""

from __future__ import annotations

from typing import Any

import orjson
from dra_shared.selectors import SelectorError, label_selector

from dra_apiserver.conversion import convert
from dra_apiserver.equality import copied
from dra_apiserver.errors import internal
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.registry import Registry

JsonObject = dict[str, Any]


class ConfigurationError(Exception):
    """A policy or a binding can't be used; the message is upstream's."""


def kind_of_params(registry: Registry, wanted: JsonObject | None) -> tuple[Kind, str] | None:
    """The kind of a policy's parameters and its version; None where it takes none.

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
    """The parameters, for each of which the policy is judged.

    Raises:
        ConfigurationError: the binding doesn't say which, or there are none and there must be.
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
        convert(info, obj, version) for obj in _chosen(info, reference, within, ctx)
    ]
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        text = "no params found for policy binding with `Deny` parameterNotFoundAction"
        raise ConfigurationError(text)
    return found


def _chosen(info: Kind, reference: JsonObject, namespace: str, ctx: Context) -> list[JsonObject]:
    group, plural = info.storage
    if reference.get("name"):
        if reference.get("selector") is not None:
            raise ConfigurationError("paramRef.name and paramRef.selector are mutually exclusive")
        found = ctx.lookup(group, plural, namespace, reference["name"])
        return [] if found is None else [copied(found)]
    if reference.get("selector") is None:
        raise ConfigurationError("one of name or selector must be provided")
    try:
        selector = label_selector(reference["selector"])
    except SelectorError as error:
        raise internal(str(error)) from None
    every = map(orjson.loads, ctx.listing(group, plural, namespace))
    return [one for one in every if selector.matches(one["metadata"].get("labels") or {})]
