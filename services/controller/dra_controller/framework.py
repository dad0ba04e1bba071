"""The parts of every controller: informers, a queue of keys, and workers that reconcile one key at a time.

Upstream repeats this in each controller; here a controller is one subclass.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from dra_shared.api.meta import Object
from dra_shared.api.resources import Resource
from dra_shared.client.events import Recorder
from dra_shared.client.informer import Informer, InformerFactory
from dra_shared.client.rest import Client
from dra_shared.client.workqueue import WorkQueue, run_workers
from dra_shared.clock import Clock
from dra_shared.features import FeatureGates
from prometheus_client import CollectorRegistry

from dra_controller.podadmission import PodAdmission
from dra_controller.queuemetrics import measure_queue

T = TypeVar("T", bound=Object)


@dataclass(frozen=True)
class Context:
    """The dependencies of a controller: client, shared informers, clock, feature gates and metrics."""

    client: Client
    informers: InformerFactory
    clock: Clock
    features: FeatureGates
    registry: CollectorRegistry
    node_monitor_grace_seconds: float = 50.0
    """The seconds after which a silent node counts as lost: --node-monitor-grace-period."""
    relist_seconds: float | None = None
    """The seconds after which informers that a controller creates for itself list again."""
    root_ca: str = ""
    """The certificates, as PEM, by which pods verify the API server: --root-ca-file."""
    operators: frozenset[str] = frozenset()
    """The operators whose kinds have controllers here: --with."""
    pod_admission: PodAdmission = field(default_factory=PodAdmission)
    """Changes to the pods that controllers create."""

    def recorder(self, component: str) -> Recorder:
        """Return a recorder whose events name ``component`` as their source."""
        return Recorder(self.client, component, clock=self.clock)


class Controller(ABC):
    """A control loop. It reads through informers, writes through the client, and keeps only what it can rebuild."""

    name: ClassVar[str]
    """The name that kube-controller-manager's ``--controllers`` uses."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._client = context.client
        self._clock = context.clock

    @classmethod
    def is_wanted(cls, context: Context) -> bool:
        """Return True if the controller has work to do with the enabled feature gates."""
        return True

    @property
    def idle(self) -> bool:
        """True if no key waits for a worker or is being reconciled. Delayed keys do not count."""
        return True

    @abstractmethod
    async def run(self) -> None:
        """Work until cancelled."""


class QueueController(Controller):
    """A controller whose event handlers put keys into a queue, from which workers reconcile them."""

    workers: ClassVar[int] = 5
    base_delay: ClassVar[float] = 0.005
    longest_delay: ClassVar[float] = 1000.0
    max_retries: ClassVar[int | None] = None
    """The number of retries of a key before it is dropped; None for no limit."""
    queue_name: ClassVar[str]
    """The name that the ``workqueue_*`` metrics of kube-controller-manager use."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._watched: list[Informer[Any]] = []
        self.queue: WorkQueue[str] = WorkQueue(
            context.clock, base_delay=self.base_delay, longest=self.longest_delay
        )
        measure_queue(context.registry, self.queue_name, self.queue)

    @property
    def idle(self) -> bool:
        return self.queue.idle

    def watch(self, resource: Resource[T]) -> Informer[T]:
        """Return the shared informer for ``resource``. :meth:`run` waits for it before the first key is reconciled."""
        informer = self._context.informers.informer(resource)
        self._watched.append(informer)
        return informer

    async def run(self) -> None:
        for informer in self._watched:
            await informer.wait_for_sync()
        await self.on_start()
        await run_workers(
            self.queue, self.reconcile, workers=self.workers, name=self.name, max_retries=self.max_retries
        )

    async def on_start(self) -> None:
        """A hook that is called once, after all informers have their first list and before any key is reconciled."""

    @abstractmethod
    async def reconcile(self, key: str) -> None:
        """Bring the object with ``key`` to its desired state.

        Raises: Exception: it failed; the key is retried with increasing delays, at most :attr:`max_retries`
        times.
        """
