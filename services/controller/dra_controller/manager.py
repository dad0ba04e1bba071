"""Runs the controllers. Of several replicas only the leader runs them.

Mirrors cmd/kube-controller-manager/app/controllermanager.go.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import prometheus_client
from dra_shared.api.resources import RESOURCE_SLICES, Resource
from dra_shared.client.identity import unique_identity
from dra_shared.client.informer import InformerFactory
from dra_shared.client.leader import LeaderElector, LeadershipLost
from dra_shared.client.rest import Client
from dra_shared.client.sharing import WithoutDetails
from dra_shared.client.terms import Terms
from dra_shared.clock import Clock, SystemClock
from dra_shared.features import FeatureGates
from dra_shared.log import logger
from dra_shared.taintrules import can_select_by_class
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from dra_controller.accounts import Accounts
from dra_controller.framework import Context, Controller
from dra_controller.jobkinds.definitions import install
from dra_controller.names import select
from dra_controller.registry import CONTROLLERS

_LEASE = "kube-controller-manager"
_RESTART_SECONDS = 1.0

_log = logger(__name__)


@dataclass(frozen=True)
class ControllerConfig:
    """The configuration of the controllers.

    ``controllers`` is the value of ``--controllers``. With ``leader_elect``, only the holder of the Lease runs
    the controllers. Every ``relist_seconds`` the informers list again, in case a watch lost something.
    ``operators`` are the operators whose kinds get controllers, as in ``--with``.
    """

    controllers: tuple[str, ...] = ("*",)
    features: FeatureGates = field(default_factory=FeatureGates)
    leader_elect: bool = False
    use_service_account_credentials: bool = False
    terms: Terms = field(default_factory=Terms)
    relist_seconds: float = 120.0
    node_monitor_grace_seconds: float = 50.0
    root_ca: str = ""
    operators: frozenset[str] = frozenset()
    identity: str = field(default_factory=unique_identity)


class ControllerManager:
    """The controllers as one service. They work inside ``async with``.

    Raises (on construction):
        ValueError: the configuration names an unknown controller.
    """

    def __init__(self, config: ControllerConfig, client: Client, clock: Clock | None = None) -> None:
        self._config = config
        self._client = client
        self._clock = clock or SystemClock()
        self._names = select(config.controllers, list(CONTROLLERS))
        self._informers: InformerFactory | None = None
        self._controllers: dict[str, Controller] = {}
        self._synced = asyncio.Event()
        self._metrics = _Metrics()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        prometheus_client.REGISTRY.register(self._metrics)
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        prometheus_client.REGISTRY.unregister(self._metrics)

    @property
    def controllers(self) -> dict[str, Controller]:
        """The running controllers by name; empty while another replica is the leader."""
        return self._controllers

    @property
    def ready(self) -> bool:
        """True if the controllers' informers are synced, or if another replica is the leader."""
        running = self._task is not None and not self._task.done()
        return running and (self._synced.is_set() or (self._config.leader_elect and self._informers is None))

    def is_idle_at(self, revision: Callable[[Resource[Any]], int]) -> bool:
        """True if the controllers have seen each resource's ``revision`` and have no key left to reconcile.

        Resources that the API server does not serve are ignored.
        """
        informers = self._informers.informers() if self._informers is not None else ()
        return all(
            int(informer.resource_version or 0) >= revision(informer.resource)
            for informer in informers
            if informer.has_synced
        ) and all(controller.idle for controller in self._controllers.values())

    async def wait_until_synced(self) -> None:
        """Wait until the controllers' informers are synced."""
        await self._synced.wait()

    async def wait(self) -> None:
        """Wait until the controllers end. Raises the exception that ended them."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def _run(self) -> None:
        if not self._config.leader_elect:
            await self._work()
            return
        while True:
            elector = LeaderElector(
                self._client, _LEASE, self._config.identity, clock=self._clock, terms=self._config.terms
            )
            try:
                await elector.run(self._work)
            except LeadershipLost as error:
                _log.warning("stopped working, standing by", reason=str(error))

    async def _work(self) -> None:
        """Run the controllers for one term of leadership. All state is read from the API server again."""
        registry = CollectorRegistry()
        relist = self._config.relist_seconds
        # Keep only names, nodes and taints of devices in the informer's slices. A controller that needs more
        # reads the slice from the API server. Nothing is left out for versions whose taint rules can select
        # devices by expression.
        by_class = can_select_by_class(self._config.features.version)
        trims = {} if by_class else {RESOURCE_SLICES.kind: WithoutDetails()}
        informers = InformerFactory(self._client, self._clock, relist_seconds=relist, trims=trims)
        context = Context(
            self._client,
            informers,
            self._clock,
            self._config.features,
            registry,
            node_monitor_grace_seconds=self._config.node_monitor_grace_seconds,
            relist_seconds=relist,
            root_ca=self._config.root_ca,
            operators=self._config.operators,
        )
        await install(self._client, self._config.operators, self._clock)
        names = [name for name in self._names if CONTROLLERS[name].is_wanted(context)]
        accounts: Accounts | None = None
        if self._config.use_service_account_credentials:
            accounts = Accounts(self._client, self._clock, names)
            await accounts.get_tokens()
        controllers = {
            name: CONTROLLERS[name](
                replace(context, client=accounts.client(name)) if accounts is not None else context
            )
            for name in names
        }
        self._informers, self._controllers = informers, controllers
        self._metrics.current = registry
        _log.info("starting controllers", controllers=sorted(controllers))
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(informers.run())
                if accounts is not None:
                    tasks.create_task(accounts.run())
                tasks.create_task(self._await_sync(informers))
                for controller in controllers.values():
                    tasks.create_task(self._keep_running(controller))
        finally:
            self._informers, self._controllers = None, {}
            self._synced.clear()
            self._metrics.current = None

    async def _await_sync(self, informers: InformerFactory) -> None:
        await informers.wait_for_sync()
        self._synced.set()
        _log.info("controllers are up")

    async def _keep_running(self, controller: Controller) -> None:
        """Run a controller, and start it again after a failure, so that the other controllers are not affected."""
        while True:
            try:
                await controller.run()
                return
            except Exception:
                _log.exception("controller failed, starting it again", controller=controller.name)
                await self._clock.sleep(_RESTART_SECONDS)


class _Metrics(Collector):
    """The metrics of the current term, if there is one."""

    def __init__(self) -> None:
        self.current: CollectorRegistry | None = None

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        merged: dict[str, Metric] = {}
        for metric in self.current.collect() if self.current is not None else ():
            if metric.name in merged:
                merged[metric.name].samples.extend(metric.samples)
            else:
                merged[metric.name] = metric
        return merged.values()
