"""Every built-in kind: the one module that imports all rooms."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from dra_shared.features import FeatureGates
from dra_shared.version import DEFAULT, Version

from dra_apiserver.kindkit import names
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kinds.admissionregistration import kinds as admissionregistration
from dra_apiserver.kinds.apiregistration import kinds as apiregistration
from dra_apiserver.kinds.apiserverinternal import kinds as apiserverinternal
from dra_apiserver.kinds.apps import kinds as apps
from dra_apiserver.kinds.authentication import kinds as authentication
from dra_apiserver.kinds.authorization import kinds as authorization
from dra_apiserver.kinds.autoscaling import kinds as autoscaling
from dra_apiserver.kinds.batch import kinds as batch
from dra_apiserver.kinds.certificates import kinds as certificates
from dra_apiserver.kinds.coordination import kinds as coordination
from dra_apiserver.kinds.core import kinds as core
from dra_apiserver.kinds.custom import kinds as custom
from dra_apiserver.kinds.flowcontrol import kinds as flowcontrol
from dra_apiserver.kinds.networking import kinds as networking
from dra_apiserver.kinds.node import kinds as node
from dra_apiserver.kinds.pods import kinds as pods
from dra_apiserver.kinds.policy import kinds as policy
from dra_apiserver.kinds.rbac import kinds as rbac
from dra_apiserver.kinds.resource import kinds as resource
from dra_apiserver.kinds.scheduling import kinds as scheduling
from dra_apiserver.kinds.storage import kinds as storage
from dra_apiserver.kinds.storagemigration import kinds as storagemigration
from dra_apiserver.registry import Registry, RuntimeConfig

_ROOMS = (
    admissionregistration,
    apiregistration,
    apiserverinternal,
    apps,
    authentication,
    authorization,
    autoscaling,
    batch,
    certificates,
    coordination,
    core,
    custom,
    flowcontrol,
    networking,
    node,
    pods,
    policy,
    rbac,
    resource,
    scheduling,
    storage,
    storagemigration,
)
_ORDER = {resource: position for position, resource in enumerate(names.all_resources())}
KINDS: Sequence[Kind] = sorted(
    (kind for room in _ROOMS for kind in room.KINDS), key=lambda kind: _ORDER[kind.group, kind.plural]
)


def runtime_config(text: str) -> RuntimeConfig:
    """What ``--runtime-config`` says of the built-in kinds.

    Raises:
        RuntimeConfigError: it is malformed, or about a group that does not exist.
    """
    config = RuntimeConfig.parse(text)
    config.check({group for group, _ in names.groups()})
    return config


@functools.cache
def kinds(kubernetes: Version) -> Sequence[Kind]:
    """The built-in kinds of a version of Kubernetes."""
    return tuple(found for kind in KINDS if (found := names.in_version(kind, kubernetes)) is not None)


def registry(
    config: RuntimeConfig | str = "", features: FeatureGates | None = None, kubernetes: Version = DEFAULT
) -> Registry:
    """The built-in kinds in the versions that ``config`` switches on.

    ``features``: without kinds whose feature gate is off, in the version of Kubernetes that they are of; None leaves
    all of ``kubernetes`` in.

    Raises:
        RuntimeConfigError: ``config`` is malformed, or about what does not exist.
    """
    chosen = runtime_config(config) if isinstance(config, str) else config
    kubernetes = features.version if features is not None else kubernetes
    known = kinds(kubernetes)
    if not chosen.classic:
        return Registry.serving(known, names.groups(), chosen, features, kubernetes)
    from dra_apiserver.kinds.classic.kinds import classic_kinds, with_sources

    made = Registry.serving(with_sources(known), names.groups(), chosen, features, kubernetes)
    for kind in classic_kinds():
        made.add(kind)
    return made
