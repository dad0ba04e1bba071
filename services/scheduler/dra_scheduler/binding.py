"""The binding cycle: what remains to be done for a pod that has been given a node, beside the scheduling loop."""

from collections.abc import Callable

from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS
from dra_shared.client.events import Recorder, reference
from dra_shared.log import logger

from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.events import Action, Event, Kind
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Status, error
from dra_scheduler.queue.scheduling import SchedulingQueue

_log = logger(__name__)


class Binder:
    """Stores decisions; takes them back when that fails. ``on_failure`` tells the user and sees to another attempt."""

    def __init__(
        self,
        framework: Framework,
        cache: Cache,
        queue: SchedulingQueue,
        recorder: Recorder,
        on_failure: Callable[[Pod, Status], None],
    ) -> None:
        self._framework = framework
        self._cache = cache
        self._queue = queue
        self._recorder = recorder
        self._on_failure = on_failure

    async def bind(self, state: CycleState, pod: Pod, assumed: Pod) -> None:
        """Prepare and bind ``assumed``, which is ``pod`` with its node's name."""
        node_name = assumed.spec.node_name
        try:
            status = await self._framework.pre_bind(state, assumed, node_name)
            if status is None:
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
        await self.give_up(state, pod, assumed)
        self._on_failure(pod, status)

    async def give_up(self, state: CycleState, pod: Pod, assumed: Pod, *, announce: bool = True) -> None:
        """The pod does not get the node after all; ``announce`` lets other pods be tried for what gets free."""
        await self._framework.unreserve(state, assumed, assumed.spec.node_name)
        self._cache.forget(assumed)
        if announce:
            # As if a pod had left the node: others may fit now.
            self._queue.move_on(Event(Kind.POD, Action.DELETE, assumed, None))
