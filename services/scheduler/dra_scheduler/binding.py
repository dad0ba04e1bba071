"""The binding cycle: PreBind and Bind for a pod that has a node, concurrent with the scheduling loop.

Mirrors ``bindingCycle`` in upstream's ``pkg/scheduler/schedule_one.go``. The node is written to the pod's
status before PreBind. Bind waits for that write, because binding clears the field.
"""

import asyncio
from collections.abc import Callable

import httpx
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS
from dra_shared.client.errors import ApiError
from dra_shared.client.events import Recorder, reference
from dra_shared.client.rest import Client
from dra_shared.log import logger

from dra_scheduler.extenders.chain import Extenders
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.events import Action, Event, Kind
from dra_scheduler.framework.podsinprebind import PodsInPreBind
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Status, error
from dra_scheduler.queue.scheduling import SchedulingQueue
from dra_scheduler.scheduleresult import Decision

_log = logger(__name__)


class NominationWriter:
    """Writes the node for which a pod is going to be bound to the pod's status, or clears it."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def write(self, pod: Pod, node_name: str) -> None:
        """Write the node name; an empty name clears it. A failure is only logged: nothing depends on the write."""
        try:
            await self._client.patch_status(PODS.skip_decoding, pod, {"nominatedNodeName": node_name or None})
        except (ApiError, httpx.HTTPError, OSError, TimeoutError) as failure:
            _log.info("nominated node not written", pod=pod.key, node=node_name, error=str(failure))


class Binder:
    """Binds pods to their nodes, and reverts the decision if binding fails.

    ``on_failure`` requeues the pod and reports the failure. Its arguments are the pod, the status, and whether
    the pod's status may name the node. With ``nominations``, the pod's status names the node during PreBind.
    The first of the ``extenders`` that can bind the pod replaces the Bind plugin. ``on_forgotten`` is called
    with pods whose node is given up.
    """

    def __init__(
        self,
        framework: Framework,
        cache: Cache,
        queue: SchedulingQueue,
        recorder: Recorder,
        in_pre_bind: PodsInPreBind,
        on_failure: Callable[[Pod, Status, bool], None],
        *,
        nominations: NominationWriter | None = None,
        extenders: Extenders | None = None,
        on_forgotten: Callable[[Pod], None] = lambda pod: None,
    ) -> None:
        self._framework = framework
        self._cache = cache
        self._queue = queue
        self._recorder = recorder
        self._in_pre_bind = in_pre_bind
        self._on_failure = on_failure
        self._nominations = nominations
        self._extenders = extenders or Extenders()
        self._on_forgotten = on_forgotten

    async def bind(self, decision: Decision) -> None:
        """Run PreBind and Bind for the pod."""
        state, pod, assumed = decision.state, decision.pod, decision.assumed
        node_name = assumed.spec.node_name
        announces = False
        try:
            expected = decision.waits or self._framework.needs_pre_bind(state, assumed, node_name)
            announces = (
                expected and self._nominations is not None and pod.status.nominated_node_name != node_name
            )
            status = await self._prepare(state, assumed, announces) if expected else None
            if status is None:
                bound, status = await self._extenders.bind(assumed, node_name)
                if not bound:
                    status = await self._framework.bind(state, assumed, node_name)
        except Exception as problem:
            _log.exception("binding failed unexpectedly", pod=pod.key, node=node_name)
            status = error(problem)
        if status is None:
            _log.info("bound", pod=pod.key, node=node_name)
            self._recorder.event(
                reference(PODS, pod),
                "Normal",
                "Scheduled",
                f"Successfully assigned {pod.key} to {node_name}",
                "Binding",
            )
            return
        _log.warning("not bound, trying again", pod=pod.key, node=node_name, error=status.message)
        await self.give_up(decision)
        self._on_failure(pod, status, announces)

    async def _prepare(self, state: CycleState, assumed: Pod, announces: bool) -> Status | None:
        """Run PreBind. At the same time, write the expected node to the pod's status."""
        uid, node_name = assumed.metadata.uid, assumed.spec.node_name
        announcing = None
        if announces and self._nominations is not None:
            announcing = asyncio.create_task(self._nominations.write(assumed, node_name))
        work = self._framework.pre_bind(state, assumed, node_name)
        preparing = asyncio.create_task(work)
        self._in_pre_bind.add(uid, preparing)
        try:
            return await preparing
        finally:
            self._in_pre_bind.remove(uid)
            preparing.cancel()
            if announcing is not None:
                # The write must finish before the binding, which clears the field.
                await announcing

    async def give_up(self, decision: Decision, *, announce: bool = True) -> None:
        """Revert the decision. With ``announce``, other pods are retried that may fit into the freed resources."""
        assumed = decision.assumed
        await self._framework.unreserve(decision.state, assumed, assumed.spec.node_name)
        self._cache.forget(assumed.metadata.uid)
        self._on_forgotten(assumed)
        if announce:
            # Send the event of a pod that left the node, because others may fit now.
            self._queue.handle_event(Event(Kind.POD, Action.DELETE, assumed, None))
