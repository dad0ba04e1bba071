"""Every built-in kind. Only this module loads all packages of kinds."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from dra_shared.features import FeatureGates
from dra_shared.version import DEFAULT, Version

from dra_apiserver.api import Routes
from dra_apiserver.kindkit import names
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kinds.rooms import FLOORS, NOT_IN_CATALOG
from dra_apiserver.registry import Registry, RuntimeConfig
from dra_apiserver.storage import Resource

_ORDER = {resource: position for position, resource in enumerate(names.all_resources())}


class _Room(Protocol):
    """The interface of a package's module `kinds`.

    It may also have `ROUTES`, handlers that replace the generic ones.
    """

    KINDS: Sequence[Kind]


def _room(name: str) -> _Room:
    room: _Room = importlib.import_module(f"dra_apiserver.kinds.{name}.kinds")
    return room


_ROOMS = tuple(_room(name) for floor in FLOORS for name in floor if name not in NOT_IN_CATALOG)
KINDS: Sequence[Kind] = sorted(
    (kind for room in _ROOMS for kind in room.KINDS), key=lambda kind: _ORDER[kind.group, kind.plural]
)
ROUTES: Mapping[Resource, Routes] = {
    resource: routes for room in _ROOMS for resource, routes in getattr(room, "ROUTES", {}).items()
}


def runtime_config(text: str) -> RuntimeConfig:
    """Parse ``--runtime-config`` for the built-in kinds.

    Raises:
        RuntimeConfigError: it is malformed, or names a group that does not exist.
    """
    config = RuntimeConfig.parse(text)
    config.check({group for group, _ in names.groups()})
    return config


@functools.cache
def kinds(kubernetes: Version) -> Sequence[Kind]:
    """Return the built-in kinds of a version of Kubernetes."""
    return tuple(found for kind in KINDS if (found := names.in_version(kind, kubernetes)) is not None)


def registry(
    config: RuntimeConfig | str = "", features: FeatureGates | None = None, kubernetes: Version = DEFAULT
) -> Registry:
    """Return a registry of the built-in kinds in the versions that ``config`` enables.

    ``features`` removes kinds whose feature gate is off, and determines the version of Kubernetes. None keeps
    all kinds of ``kubernetes``.

    Raises:
        RuntimeConfigError: ``config`` is malformed, or names something that does not exist.
    """
    chosen = runtime_config(config) if isinstance(config, str) else config
    kubernetes = features.version if features is not None else kubernetes
    known = kinds(kubernetes)
    if not chosen.classic:
        return Registry.create_serving(known, names.groups(), chosen, features, kubernetes)
    from dra_apiserver.kinds.classic.kinds import classic_kinds, with_sources

    made = Registry.create_serving(with_sources(known), names.groups(), chosen, features, kubernetes)
    for kind in classic_kinds():
        made.add(kind)
    return made
