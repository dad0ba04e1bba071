"""A world: the immutable set of objects that decisions depend on.

Modified worlds share the objects that they have in common.
"""

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
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Resource,
)
from dra_shared.features import FeatureGates
from dra_shared.version import DEFAULT, Version

from dra_scheduler.plan.neededgates import Found, Need, Needed, gates_of, needs

T = TypeVar("T", bound=Object)

# In the order in which a simulation loads them: objects that pods refer to come before the pods.
RESOURCES: tuple[Resource[Any], ...] = (
    NAMESPACES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
    LIMIT_RANGES,
    RESOURCE_QUOTAS,
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

_Of = Mapping[str, Object]


class Objects:
    """Objects by resource and key."""

    def __init__(
        self, by_resource: Mapping[Resource[Any], _Of] | None = None, *, needed: Needed | None = None
    ) -> None:
        self._of: dict[Resource[Any], _Of] = dict(by_resource or {})
        self._needed = needed or Needed(None, [(r, tuple(each.values())) for r, each in self._of.items()])

    def of(self, resource: Resource[T]) -> Mapping[str, T]:
        """Return the objects of the resource by key."""
        found: Mapping[str, Any] = self._of.get(resource, {})
        return found

    def knows(self, resource: Resource[Any]) -> bool:
        """True if the resource was read, even if there are no objects."""
        return resource in self._of

    def with_known(self, resources: Iterable[Resource[Any]]) -> "Objects":
        """Return the same objects with these resources marked as read."""
        return Objects({resource: {} for resource in resources} | self._of, needed=self._needed)

    def __iter__(self) -> Iterator[tuple[Resource[Any], _Of]]:
        """Iterate over the resources in the order in which a simulation loads them."""
        return ((resource, self._of[resource]) for resource in RESOURCES if self._of.get(resource))

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def with_objects(self, objects: Iterable[tuple[Resource[Any], Object]]) -> "Objects":
        """Return a copy with these objects added or replaced."""
        changed: dict[Resource[Any], dict[str, Object]] = {}
        added: dict[Resource[Any], list[Object]] = {}
        for resource, obj in objects:
            if resource not in changed:
                changed[resource], added[resource] = dict(self.of(resource)), []
            changed[resource][obj.key] = obj
            added[resource].append(obj)
        return Objects(self._of | changed, needed=Needed(self._needed, list(added.items())))

    def without(self, resource: Resource[Any], keys: Iterable[str]) -> "Objects":
        """Return a copy without the objects with these keys."""
        gone = set(keys)
        left = {key: obj for key, obj in self.of(resource).items() if key not in gone}
        return Objects(self._of | {resource: left}, needed=self._needed)

    def with_needs_of(self, other: "Objects") -> "Objects":
        """Return these objects with the feature gates that the objects of ``other`` need."""
        return Objects(self._of, needed=other._needed)

    def gates(self, chosen: Mapping[str, bool] | None = None, version: Version = DEFAULT) -> FeatureGates:
        """Return the feature gates of a cluster with such objects. ``chosen`` takes precedence."""
        return gates_of(self._needed.find(), chosen, version)

    def needs(self, chosen: Mapping[str, bool], version: Version = DEFAULT) -> list[Need]:
        """Return the gates that are on only because objects need them."""
        return needs(self._needed.find(), chosen, version)[1]

    def needed_gates(self) -> Found:
        """Return the gates without which a cluster could not have some object, each with such an object."""
        return self._needed.find()
