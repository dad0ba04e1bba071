"""A world: the objects that decisions depend on, immutable, sharing what variants have in common."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from dra_shared.api.meta import Object
from dra_shared.api.resources import (
    COMPOSITE_POD_GROUPS,
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    DAEMON_SETS,
    DEPLOYMENTS,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Resource,
)
from dra_shared.features import FeatureGates
from dra_shared.version import DEFAULT, Version, release

T = TypeVar("T", bound=Object)

# In the order in which a simulation takes them: what pods refer to comes before them.
RESOURCES: tuple[Resource[Any], ...] = (
    NAMESPACES,
    NODES,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    SERVICES,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    POD_DISRUPTION_BUDGETS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    PODS,
)
BY_KIND: Mapping[tuple[str, str], Resource[Any]] = {(r.group, r.kind): r for r in RESOURCES}
_GROUP_GATES = {"GenericWorkload": True, "GangScheduling": True, "DRAWorkloadResourceClaims": True}

_Of = Mapping[str, Object]


class Objects:
    """Objects by resource and key."""

    def __init__(self, by_resource: Mapping[Resource[Any], _Of] | None = None) -> None:
        self._of: dict[Resource[Any], _Of] = dict(by_resource or {})

    def of(self, resource: Resource[T]) -> Mapping[str, T]:
        """The objects of the resource, by key."""
        found: Mapping[str, Any] = self._of.get(resource, {})
        return found

    def __iter__(self) -> Iterator[tuple[Resource[Any], _Of]]:
        """All resources in the order in which a simulation takes them."""
        return ((resource, self._of[resource]) for resource in RESOURCES if self._of.get(resource))

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def with_objects(self, objects: Iterable[tuple[Resource[Any], Object]]) -> "Objects":
        """The same with these added, or in place of those of the same key."""
        changed: dict[Resource[Any], dict[str, Object]] = {}
        for resource, obj in objects:
            if resource not in changed:
                changed[resource] = dict(self.of(resource))
            changed[resource][obj.key] = obj
        return Objects(self._of | changed)

    def without(self, resource: Resource[Any], keys: Iterable[str]) -> "Objects":
        """The same without the objects of these keys."""
        gone = set(keys)
        left = {key: obj for key, obj in self.of(resource).items() if key not in gone}
        return Objects(self._of | {resource: left})

    def gates(self, chosen: Mapping[str, bool] | None = None, version: Version = DEFAULT) -> FeatureGates:
        """The feature gates that the cluster must have, as it has such objects; ``chosen`` decides where it says."""
        known = release(version).gates
        implied = {name: on for name, on in _GROUP_GATES.items() if name in known and self.of(POD_GROUPS)}
        if "CompositePodGroup" in known and self.of(COMPOSITE_POD_GROUPS):
            implied |= {"CompositePodGroup": True, "GenericWorkload": True}
        return FeatureGates(version, **{**implied, **(chosen or {})})
