"""Default selectors: the pods that share a pod's services and controller (upstream's ``helper.DefaultSelector``)."""

from collections.abc import Callable
from typing import TypeVar

from dra_shared.api.apps import ReplicaSet, StatefulSet
from dra_shared.api.core import ReplicationController, Service
from dra_shared.api.meta import LabelSelector as LabelSelectorSpec
from dra_shared.api.meta import Object
from dra_shared.api.pod import Pod
from dra_shared.api.resources import REPLICA_SETS, REPLICATION_CONTROLLERS, SERVICES, STATEFUL_SETS, Resource
from dra_shared.claims import controller_of
from dra_shared.client.informer import InformerFactory
from dra_shared.client.store import Store
from dra_shared.selectors import LabelSelector, SelectorError, label_selector

T = TypeVar("T", bound=Object)

# Returns the selector of a pod's siblings, or None if it has none.
Siblings = Callable[[Pod], LabelSelector | None]

_BY_NAMESPACE = "namespace"


class SiblingSelectors:
    """Upstream's helper.DefaultSelector, based on informers."""

    def __init__(self, informers: InformerFactory) -> None:
        def store(resource: Resource[T]) -> Store[T]:
            return informers.informer(resource).store

        self._services: Store[Service] = store(SERVICES)
        self._services.add_index(_BY_NAMESPACE, lambda service: (service.metadata.namespace,))
        self._replication_controllers: Store[ReplicationController] = store(REPLICATION_CONTROLLERS)
        self._replica_sets: Store[ReplicaSet] = store(REPLICA_SETS)
        self._stateful_sets: Store[StatefulSet] = store(STATEFUL_SETS)

    def __call__(self, pod: Pod) -> LabelSelector | None:
        """Return the selector that combines all of the pod's services and its controller."""
        labels, namespace = pod.metadata.labels, pod.metadata.namespace
        wanted: dict[str, str] = {}
        if labels:
            for service in self._services.by_index(_BY_NAMESPACE, namespace):
                selector = service.spec.selector
                if selector and selector.items() <= labels.items():
                    wanted |= selector
        owner = controller_of(pod)
        if not wanted and owner is None:
            return None
        requirements = label_selector({"matchLabels": wanted}).requirements
        if owner is not None:
            key = f"{namespace}/{owner.name}"
            try:
                requirements += label_selector(
                    self._selector_of(owner.api_version, owner.kind, key)
                ).requirements
            except SelectorError:
                return None
        return LabelSelector(requirements) if requirements else None

    def _selector_of(self, api_version: str, kind: str, key: str) -> LabelSelectorSpec | None:
        if (api_version, kind) == ("v1", "ReplicationController"):
            controller = self._replication_controllers.get(key)
            selector = controller.spec.selector if controller is not None else None
            return LabelSelectorSpec(match_labels=selector) if selector else None
        owner: ReplicaSet | StatefulSet | None = None
        if (api_version, kind) == ("apps/v1", "ReplicaSet"):
            owner = self._replica_sets.get(key)
        elif (api_version, kind) == ("apps/v1", "StatefulSet"):
            owner = self._stateful_sets.get(key)
        return owner.spec.selector if owner is not None else None
