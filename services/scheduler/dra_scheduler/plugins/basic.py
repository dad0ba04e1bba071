"""PrioritySort, SchedulingGates and DefaultBinder.

Mirrors upstream's ``pkg/scheduler/framework/plugins/queuesort``, ``schedulinggates`` and ``defaultbinder``.
"""

from collections.abc import Sequence
from datetime import datetime

import httpx
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.pod import Binding, ObjectReference, Pod
from dra_shared.api.resources import PODS
from dra_shared.client.errors import ApiError
from dra_shared.client.rest import Client

from dra_scheduler.framework.events import Action, Interest, Kind
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Status, error, unresolvable


class PrioritySort:
    """Orders the queue by priority, then by waiting time."""

    name = "PrioritySort"

    def key(self, pod: Pod, since: datetime, order: int) -> tuple[int, datetime, int]:
        """Return the sort key for the queue, lowest first. ``order`` breaks ties."""
        return -(pod.spec.priority or 0), since, order


class SchedulingGates:
    """Keeps pods with scheduling gates out of the active queue."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if not pod.spec.scheduling_gates:
            return None
        gates = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        return unresolvable(f"waiting for scheduling gates: [{gates}]")

    def events_to_register(self) -> Sequence[Interest]:
        return (Interest(Kind.TARGET_POD, Action.POD_GATES),)


class DefaultBinder:
    """Binds pods through the binding subresource."""

    name = "DefaultBinder"

    def __init__(self, client: Client) -> None:
        self._client = client

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        meta = pod.metadata
        binding = Binding(
            api_version="v1",
            kind="Binding",
            metadata=ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid),
            target=ObjectReference(kind="Node", name=node_name),
        )
        try:
            await self._client.create_subresource(PODS, meta.name, "binding", binding, meta.namespace)
        except (ApiError, httpx.HTTPError, OSError, TimeoutError) as failure:
            return error(failure)
        return None
