"""Builds the scheduler from its parts (upstream's ``scheduler.New``).

Parts are made in the order in which they need each other. The queue and the plugins need each other: plugins move
pods in the queue, and the queue asks plugins which pods may enter it. So the queue is made first, and gets the plugins
once they exist.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dra_shared.api.pod import Pod
from dra_shared.api.resources import NAMESPACES, POD_DISRUPTION_BUDGETS, PODS
from dra_shared.client.events import Recorder
from dra_shared.client.informer import InformerFactory
from dra_shared.client.leader import LeaderElector
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, SystemClock

from dra_scheduler.allocator import Features
from dra_scheduler.binding import Binder, NominationWriter
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.dra.podgroups import PodGroups
from dra_scheduler.eventhandlers import EventHandlers
from dra_scheduler.explain.explainer import Explainer
from dra_scheduler.explain.groups import GroupExplainer
from dra_scheduler.failurehandler import FailureHandler
from dra_scheduler.failurereporter import FailureReporter
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.events import Action, Interest, Kind
from dra_scheduler.framework.podsinprebind import PodsInPreBind
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.groupcycle import GroupCycle
from dra_scheduler.placement import Placement
from dra_scheduler.plugins.dynamicresources.plugin import DynamicResources
from dra_scheduler.plugins.registry import Parts, default_framework
from dra_scheduler.plugins.siblings import SiblingSelectors
from dra_scheduler.plugins.volumes.objects import VolumeObjects
from dra_scheduler.podcycle import PodCycle
from dra_scheduler.queue.scheduling import SchedulingQueue
from dra_scheduler.scheduler import Scheduler
from dra_scheduler.tasks import Tasks


@dataclass(frozen=True)
class Sources:
    """Where objects come from, and where events go. ``volumes`` is run only once a pod with a volume claim comes.

    ``announces``: someone wants to know a pod's node while what has to be done before binding goes on.
    """

    informers: InformerFactory
    volumes: InformerFactory
    recorder: Recorder
    announces: bool = True


def new_scheduler(
    config: SchedulerConfig,
    *,
    client: Client,
    clock: Clock | None = None,
    rng: random.Random | None = None,
    on_synced: Callable[[], None] = lambda: None,
    sources: Sources | None = None,
) -> Scheduler:
    """A scheduler that does not run yet; the caller closes ``client``. ``on_synced``: see :class:`Scheduler`.

    ``sources`` stand in for informers and events over ``client``, as for a world in memory.
    """
    clock = clock or SystemClock()
    base = _base(config, client, clock, sources or _over(client, config, clock))
    framework, dynamic_resources = _plugins(base)
    _connect_queue(base.queue, framework, dynamic_resources)
    reporter = FailureReporter(client, base.recorder, base.clock, base.tasks.start)
    failures = FailureHandler(base.queue, base.cache, reporter)
    explainer = _explainer(base, framework)
    placement = Placement(framework, base.cache, base.clock, rng or random.Random())
    pod_cycle = PodCycle(
        framework, dynamic_resources, placement, base.cache, base.queue, base.volumes,
        _binder(base, framework, failures), reporter, explainer, base.tasks, base.clock,
    )  # fmt: skip
    group_cycle = GroupCycle(
        base.groups, base.queue, pod_cycle, failures, reporter, gangs=base.enabled("GangScheduling")
    )
    EventHandlers(
        config.scheduler_name,
        base.cache,
        base.queue,
        base.manager,
        base.groups,
        on_gone=pod_cycle.pod_deleted,
        on_placed=dynamic_resources.deallocator.placed,
    ).register(base.informers, config.gates)
    return Scheduler(
        config,
        base.clock,
        informers=base.informers,
        cache=base.cache,
        queue=base.queue,
        manager=base.manager,
        groups=base.groups,
        pod_cycle=pod_cycle,
        group_cycle=group_cycle,
        failures=failures,
        explainer=explainer,
        tasks=base.tasks,
        elector=_elector(base),
        on_synced=on_synced,
    )


def _over(client: Client, config: SchedulerConfig, clock: Clock) -> Sources:
    host = config.identity.rpartition("_")[0] or config.identity
    return Sources(
        InformerFactory(client, clock),
        InformerFactory(client, clock),
        Recorder(client, config.scheduler_name, host=host, clock=clock, series=True),
    )


@dataclass(frozen=True)
class _Base:
    """The parts that need no plugin: what the scheduler knows, and what it writes with."""

    config: SchedulerConfig
    client: Client
    clock: Clock
    recorder: Recorder
    announces: bool
    tasks: Tasks
    informers: InformerFactory
    cache: Cache
    queue: SchedulingQueue
    groups: PodGroups
    manager: DRAManager
    volumes: VolumeObjects
    in_pre_bind: PodsInPreBind

    def enabled(self, gate: str) -> bool:
        return self.config.gates.enabled(gate)

    def newest_pod(self, key: str) -> Pod | None:
        """The pod as the informer has it."""
        return self.informers.informer(PODS).store.get(key)


def _base(config: SchedulerConfig, client: Client, clock: Clock, sources: Sources) -> _Base:
    gates = config.gates
    cache, queue = Cache(), SchedulingQueue(clock)
    return _Base(
        config,
        client,
        clock,
        recorder=sources.recorder,
        announces=sources.announces and gates.enabled("NominatedNodeNameForExpectation"),
        tasks=Tasks(),
        informers=sources.informers,
        cache=cache,
        queue=queue,
        groups=PodGroups(),
        manager=DRAManager(
            Features.from_gates(gates),
            taint_rules=gates.enabled("DRADeviceTaints") and gates.enabled("DRADeviceTaintRules"),
            on_nodes=cache.touch,
        ),
        volumes=VolumeObjects(sources.volumes, queue.move_on),
        in_pre_bind=PodsInPreBind(),
    )


def _plugins(base: _Base) -> tuple[Framework, DynamicResources]:
    config, informers = base.config, base.informers
    namespaces = informers.informer(NAMESPACES).store

    def namespace_labels(name: str) -> Mapping[str, str]:
        namespace = namespaces.get(name)
        return namespace.metadata.labels if namespace is not None else {}

    dynamic_resources = DynamicResources(
        config.gates,
        base.manager,
        base.client,
        pod_groups=base.groups,
        recorder=base.recorder,
        clock=base.clock,
        filter_timeout=config.filter_timeout,
        binding_timeout=config.binding_timeout,
    )
    parts = Parts(
        gates=config.gates,
        cache=base.cache,
        manager=base.manager,
        groups=base.groups,
        client=base.client,
        recorder=base.recorder,
        clock=base.clock,
        volumes=base.volumes,
        namespace_labels=namespace_labels,
        newest_pod=base.newest_pod,
        spawn=base.tasks.start,
        siblings=SiblingSelectors(informers),
        budgets=informers.informer(POD_DISRUPTION_BUDGETS).store.list,
        in_pre_bind=base.in_pre_bind,
        activate=base.queue.activate,
        binding_timeout=config.binding_timeout,
    )
    return default_framework(parts, dynamic_resources), dynamic_resources


def _connect_queue(queue: SchedulingQueue, framework: Framework, dynamic_resources: DynamicResources) -> None:
    interests = framework.interests()
    # A pod that no plugin rejected found no nodes at all: it waits for the first.
    interests[""] = (Interest(Kind.NODE, Action.ADD),)
    queue.set_plugins(framework.pre_enqueue, interests, keys=dynamic_resources.index_keys)


def _binder(base: _Base, framework: Framework, failures: FailureHandler) -> Binder:
    return Binder(
        framework,
        base.cache,
        base.queue,
        base.recorder,
        base.in_pre_bind,
        failures.not_bound,
        nominations=NominationWriter(base.client) if base.announces else None,
    )


def _explainer(base: _Base, framework: Framework) -> Explainer:
    groups = GroupExplainer(base.groups, base.queue, base.cache, gangs=base.enabled("GangScheduling"))
    return Explainer(
        base.cache,
        base.queue,
        base.manager,
        framework,
        base.clock,
        base.newest_pod,
        groups,
        base.config.scheduler_name,
    )


def _elector(base: _Base) -> LeaderElector | None:
    if not base.config.leader_elect:
        return None
    return LeaderElector(base.client, "kube-scheduler", base.config.identity, clock=base.clock)
