"""Builds the scheduler from its parts (upstream's ``scheduler.New``).

Parts are created in the order of their dependencies. The queue and the plugins depend on each other: plugins
move pods in the queue, and the queue calls plugins to decide which pods may enter it. So the queue is
created first, and gets the plugins once they exist.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from dra_shared.api.pod import Pod
from dra_shared.api.resources import (
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
)
from dra_shared.claims import claim_keys
from dra_shared.client.events import Recorder
from dra_shared.client.informer import InformerFactory
from dra_shared.client.leader import LeaderElector
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, SystemClock
from dra_shared.podgroups import gangs_wait
from dra_shared.taintrules import taint_rules
from dra_shared.version import V1_37, Version

from dra_scheduler.allocator import Features
from dra_scheduler.binding import Binder, NominationWriter
from dra_scheduler.componentconfig.profiles import Profile
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.dra.podgroups import PodGroups
from dra_scheduler.eventhandlers import EventHandlers
from dra_scheduler.explain.explainer import Explainer
from dra_scheduler.explain.groups import GroupExplainer
from dra_scheduler.explain.shortfalls import Shortfalls
from dra_scheduler.explain.together import GangTrials
from dra_scheduler.extenders.chain import EXTENDER, INTERESTS, Extenders
from dra_scheduler.failurehandler import FailureHandler
from dra_scheduler.failurereporter import FailureReporter
from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.events import Action, Interest, Kind
from dra_scheduler.framework.podsinprebind import PodsInPreBind
from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.status import Status
from dra_scheduler.groupcycle import GroupCycle
from dra_scheduler.metrics import count_incoming, watch_entities
from dra_scheduler.placement import Placement
from dra_scheduler.plugins.dynamicresources.immediate import ImmediateClaims
from dra_scheduler.plugins.dynamicresources.plugin import DynamicResources
from dra_scheduler.plugins.profiles import profiles_of
from dra_scheduler.plugins.registry import Parts, new_framework
from dra_scheduler.plugins.siblings import SiblingSelectors
from dra_scheduler.plugins.volumes.objects import VolumeObjects
from dra_scheduler.podcycle import PodCycle, PodCycles
from dra_scheduler.queue.scheduling import SchedulingQueue
from dra_scheduler.scheduler import Scheduler
from dra_scheduler.tasks import Tasks
from dra_scheduler.treecycle import TreeCycle


@dataclass(frozen=True)
class Sources:
    """The sources of objects and the sinks of events. ``volumes`` runs only once a pod has a volume claim.

    ``recorder`` creates the recorder for the profile of that name. ``stopwatch`` limits searches and
    explanations (None: use the clock). With ``announces``, actions are visible to others: metrics count
    them, a pod's status names the node during PreBind, and extenders are called.
    """

    informers: InformerFactory
    volumes: InformerFactory
    recorder: Callable[[str], Recorder]
    stopwatch: Clock | None = None
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
    """Build a scheduler that is not running yet. The caller closes ``client``. ``on_synced``: see :class:`Scheduler`.

    ``sources`` replace informers and events over ``client``, for example for a world in memory.
    """
    clock = clock or SystemClock()
    base = _base(config, client, clock, sources or _over(client, config, clock))
    built = {profile.scheduler_name: _profile(base, profile) for profile in profiles_of(config)}
    frameworks = {name: parts.framework for name, parts in built.items()}
    _connect_queue(base.queue, built)
    recorder = partial(_recorder_of, built)
    reporter = FailureReporter(client, recorder, base.clock, base.tasks.start, base.kubernetes)
    failures = FailureHandler(base.queue, base.cache, reporter)
    explainer = _explainer(base, frameworks)
    cycle = partial(_pod_cycle, base, failures, reporter, explainer, rng or random.Random())
    pod_cycles = PodCycles({name: cycle(parts) for name, parts in built.items()})
    group_cycle = _group_cycle(base, pod_cycles, failures, reporter)

    def handle_placed(pod: Pod) -> None:
        for parts in built.values():
            parts.dynamic_resources.deallocator.handle_placed(pod)

    EventHandlers(
        frozenset(built),
        base.cache,
        base.queue,
        base.manager,
        base.groups,
        on_gone=pod_cycles.handle_deleted_pod,
        on_placed=handle_placed,
    ).register(base.informers, config.gates)
    return Scheduler(
        config,
        base.clock,
        informers=base.informers,
        cache=base.cache,
        queue=base.queue,
        manager=base.manager,
        groups=base.groups,
        pod_cycle=pod_cycles,
        group_cycle=group_cycle,
        failures=failures,
        explainer=explainer,
        tasks=base.tasks,
        extenders=base.extenders,
        while_leading=_immediate_claims(base).run,
        elector=_elector(base),
        on_synced=on_synced,
    )


def _group_cycle(
    base: "_Base", cycles: PodCycles, failures: FailureHandler, reporter: FailureReporter
) -> GroupCycle | TreeCycle:
    if base.tries_trees:
        return TreeCycle(
            base.groups,
            base.queue,
            cycles,
            failures,
            reporter,
            base.clock,
            own_policy=base.is_enabled("PodGroupPreemptionPolicy"),
            placements=base.is_enabled("TopologyAwareWorkloadScheduling"),
            measured=base.announces,
        )
    return GroupCycle(
        base.groups,
        base.queue,
        cycles,
        failures,
        reporter,
        base.clock,
        gangs=gangs_wait(base.config.gates),
        measured=base.announces,
    )


def _over(client: Client, config: SchedulerConfig, clock: Clock) -> Sources:
    host = config.identity.rpartition("_")[0] or config.identity
    return Sources(
        InformerFactory(client, clock),
        InformerFactory(client, clock),
        lambda name: Recorder(client, name, host=host, clock=clock, series=True),
    )


@dataclass(frozen=True)
class _Base:
    """The parts that need no plugin: state of the cluster, and writers."""

    config: SchedulerConfig
    client: Client
    clock: Clock
    stopwatch: Clock
    recorder: Callable[[str], Recorder]
    announces: bool
    tasks: Tasks
    informers: InformerFactory
    cache: Cache
    queue: SchedulingQueue
    groups: PodGroups
    manager: DRAManager
    volumes: VolumeObjects
    siblings: SiblingSelectors
    in_pre_bind: PodsInPreBind
    extenders: Extenders

    def is_enabled(self, gate: str) -> bool:
        return self.config.gates.enabled(gate)

    @property
    def tries_trees(self) -> bool:
        """True if groups are tried as trees and preempt as a whole, as they are since 1.37."""
        return self.kubernetes >= V1_37 and self.is_enabled("GenericWorkload")

    @property
    def kubernetes(self) -> Version:
        return self.config.gates.version

    def newest_pod(self, key: str) -> Pod | None:
        """Return the informer's version of the pod."""
        return self.informers.informer(PODS).store.get(key)


def _base(config: SchedulerConfig, client: Client, clock: Clock, sources: Sources) -> _Base:
    gates = config.gates
    initial, most = config.backoff
    cache, queue = Cache(), SchedulingQueue(clock, initial_backoff=initial, max_backoff=most)
    if sources.announces:
        queue.on_incoming = count_incoming(gates.version)
    if gates.version >= V1_37:
        watch_entities(queue)
    return _Base(
        config,
        client,
        clock,
        stopwatch=sources.stopwatch or clock,
        recorder=sources.recorder,
        announces=sources.announces,
        tasks=Tasks(),
        informers=sources.informers,
        cache=cache,
        queue=queue,
        groups=PodGroups(trees=gates.enabled("CompositePodGroup")),
        manager=DRAManager(
            Features.from_gates(gates, gates.version),
            taint_rules=taint_rules(gates) is not None,
            on_nodes=cache.touch,
        ),
        volumes=VolumeObjects(sources.volumes, queue.handle_event),
        siblings=SiblingSelectors(sources.informers),
        in_pre_bind=PodsInPreBind(),
        extenders=Extenders(config.extenders if sources.announces else ()),
    )


@dataclass(frozen=True)
class _Profile:
    """The parts of the scheduler that exist once for each profile."""

    profile: Profile
    framework: Framework
    dynamic_resources: DynamicResources
    recorder: Recorder


def _profile(base: _Base, profile: Profile) -> _Profile:
    config, informers = base.config, base.informers
    namespaces = informers.informer(NAMESPACES).store
    recorder = base.recorder(profile.scheduler_name)

    def namespace_labels(name: str) -> Mapping[str, str]:
        namespace = namespaces.get(name)
        return namespace.metadata.labels if namespace is not None else {}

    parts = Parts(
        gates=config.gates,
        cache=base.cache,
        manager=base.manager,
        groups=base.groups,
        client=base.client,
        recorder=recorder,
        clock=base.clock,
        stopwatch=base.stopwatch,
        volumes=base.volumes,
        namespace_labels=namespace_labels,
        newest_pod=base.newest_pod,
        spawn=base.tasks.start,
        siblings=base.siblings,
        budgets=informers.informer(POD_DISRUPTION_BUDGETS).store.list,
        in_pre_bind=base.in_pre_bind,
        activate=base.queue.activate,
        extenders=base.extenders,
        measured=base.announces,
    )
    made = new_framework(parts, profile)
    return _Profile(profile, made.framework, made.dynamic_resources, recorder)


def _recorder_of(profiles: Mapping[str, _Profile], pod: Pod) -> Recorder:
    return profiles[pod.spec.scheduler_name].recorder


def _pod_cycle(
    base: _Base,
    failures: FailureHandler,
    reporter: FailureReporter,
    explainer: Explainer,
    rng: random.Random,
    parts: _Profile,
) -> PodCycle:
    percentage = base.config.percentage_of(parts.profile)
    return PodCycle(
        parts.framework,
        parts.dynamic_resources,
        Placement(parts.framework, base.cache, base.clock, rng, percentage, base.extenders),
        base.cache,
        base.queue,
        base.volumes,
        _binder(base, parts, failures),
        reporter,
        explainer,
        base.tasks,
        base.clock,
        measured=base.announces,
        members_preempt=not base.tries_trees,
    )


def _immediate_claims(base: _Base) -> ImmediateClaims:
    """Create the allocator of immediate claims. Must be called after the manager's handlers are registered."""
    immediate = ImmediateClaims(base.manager, base.cache, base.client, base.clock)
    base.informers.informer(RESOURCE_CLAIMS).add_handler(
        immediate.notice, lambda _, new: immediate.notice(new), lambda _: None
    )
    return immediate


def _connect_queue(queue: SchedulingQueue, profiles: Mapping[str, _Profile]) -> None:
    def pre_enqueue(pod: Pod) -> Status | None:
        return profiles[pod.spec.scheduler_name].framework.pre_enqueue(pod)

    # A pod that no plugin rejected found no nodes at all, so it waits for the first node.
    first_node = {"": (Interest(Kind.NODE, Action.ADD),)}
    always = {**first_node, EXTENDER: INTERESTS}
    interests = {name: {**parts.framework.interests(), **always} for name, parts in profiles.items()}
    queue.set_plugins(pre_enqueue, interests, keys=claim_keys)


def _binder(base: _Base, parts: _Profile, failures: FailureHandler) -> Binder:
    announces = base.announces and base.is_enabled("NominatedNodeNameForExpectation")
    return Binder(
        parts.framework,
        base.cache,
        base.queue,
        parts.recorder,
        base.in_pre_bind,
        failures.handle_unbound,
        nominations=NominationWriter(base.client) if announces else None,
        extenders=base.extenders,
        on_forgotten=base.groups.displace,
    )


def _explainer(base: _Base, frameworks: Mapping[str, Framework]) -> Explainer:
    gangs = gangs_wait(base.config.gates)

    def offered_resources() -> set[str]:
        return {name for node in base.cache.nodes() for name in node.allocatable}

    def has_template(key: str) -> bool:
        return base.informers.informer(RESOURCE_CLAIM_TEMPLATES).store.get(key) is not None

    return Explainer(
        base.cache,
        base.queue,
        base.manager,
        frameworks,
        base.stopwatch,
        base.newest_pod,
        GroupExplainer(base.groups, base.queue, base.cache, gangs=gangs),
        GangTrials(base.groups, base.cache, base.manager, frameworks, gangs=gangs),
        Shortfalls(base.manager, offered_resources, extended=base.is_enabled("DRAExtendedResource")),
        # A world in memory has extenders in its configuration, too, but does not call them.
        Extenders(base.config.extenders),
        # A live scheduler does not watch claim templates.
        None if base.announces else has_template,
    )


def _elector(base: _Base) -> LeaderElector | None:
    if not base.config.leader_elect:
        return None
    lease = base.config.lease
    return LeaderElector(
        base.client,
        lease.name,
        base.config.identity,
        namespace=lease.namespace,
        clock=base.clock,
        terms=lease.terms,
    )
