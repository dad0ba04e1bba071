"""A world and its scheduler's configuration after one of the changes that ``POST /plan/change`` and ``replay`` take."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from dra_shared.api.meta import Object
from dra_shared.api.resources import NODES, PODS, RESOURCE_SLICES, Resource
from dra_shared.features import FeatureGates
from dra_shared.version import Version

from dra_scheduler.componentconfig.load import load
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.requests import ChangeRequest

Read = Callable[[Iterable[dict[str, Any]]], Iterable[tuple[Resource[Any], Object]]]


@dataclass(frozen=True)
class Edited:
    """A world, and how its scheduler is configured."""

    objects: Objects
    config: SchedulerConfig

    def after(self, change: ChangeRequest, read: Read) -> "Edited":
        """The same after the change; ``read`` makes typed objects.

        Raises:
            ValueError: a node, gate, version or the configuration makes no sense.
        """
        objects = without_nodes(self.objects, change.remove).with_objects(read(change.objects))
        config = self.config
        if change.feature_gates or change.kubernetes_version:
            config = replace(config, gates=_gates(change, config.gates))
        if change.config is not None:
            config = replace(config, loaded=load(msgspec.json.encode(change.config).decode(), config.gates))
        return Edited(objects, config)


def _gates(change: ChangeRequest, before: FeatureGates) -> FeatureGates:
    """Gates that are named, on top of those before; another version begins with its own defaults."""
    version = Version.parse(change.kubernetes_version) if change.kubernetes_version else before.version
    kept = str(before) if version == before.version else ""
    return FeatureGates.parse(",".join(filter(None, [kept, change.feature_gates])), version)


def without_nodes(objects: Objects, names: Iterable[str]) -> Objects:
    """The same without these nodes, their slices and their pods.

    Raises:
        ValueError: there is no such node.
    """
    gone = set(names)
    if not gone:
        return objects
    unknown = sorted(gone - objects.of(NODES).keys())
    if unknown:
        raise ValueError(f'there is no node "{unknown[0]}"')
    slices = [key for key, piece in objects.of(RESOURCE_SLICES).items() if piece.spec.node_name in gone]
    pods = [key for key, pod in objects.of(PODS).items() if pod.spec.node_name in gone]
    return objects.without(NODES, gone).without(RESOURCE_SLICES, slices).without(PODS, pods)
