"""Measure the cost of a claim's event while pods wait for their claims, with pre-queueing hints and without.

Prints one JSON object a line: ``microseconds`` is the mean CPU time of one event that concerns one of ``pods`` waiting
pods. With ``hints`` the pod is looked up by its claim, as dralab always does. Without hints, the event is checked for
every waiting pod, as upstream does while its gate SchedulerPreQueueingHints is off.
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import replace

from dra_scheduler.allocator import Features
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.dra.podgroups import PodGroups
from dra_scheduler.framework.events import Action, Event, Kind
from dra_scheduler.plugins.dynamicresources.plugin import DynamicResources
from dra_scheduler.queue.scheduling import SchedulingQueue
from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import PODS, RESOURCE_CLAIMS
from dra_shared.client.events import Recorder
from dra_shared.client.rest import Client
from dra_shared.clock import SystemClock
from dra_shared.features import FeatureGates
from dra_shared.version import V1_37

_PROFILE = "default-scheduler"


def _pod(number: int) -> Pod:
    claims = [{"name": "gpu", "resourceClaimName": f"claim-{number}"}]
    metadata = {"name": f"pod-{number}", "namespace": "bench", "uid": f"uid-{number}"}
    return convert(
        PODS, {"metadata": metadata, "spec": {"schedulerName": _PROFILE, "resourceClaims": claims}}
    )


def _claim(number: int) -> ResourceClaim:
    metadata = {"name": f"claim-{number}", "namespace": "bench", "uid": f"claim-uid-{number}"}
    return convert(RESOURCE_CLAIMS, {"metadata": metadata})


def _queue_of_rejected_pods(plugin: DynamicResources, pods: int, hints: bool) -> SchedulingQueue:
    """Return a queue of pods that the plugin has rejected."""
    queue = SchedulingQueue(SystemClock())
    wanted = plugin.events_to_register()
    if not hints:
        wanted = [replace(interest, keys=None) for interest in wanted]
    interests = {_PROFILE: {plugin.name: wanted}}
    queue.set_plugins(lambda _: None, interests, keys=plugin.index_keys)
    for number in range(pods):
        queue.add(_pod(number))
    for _ in range(pods):
        entry = queue.try_pop()
        assert entry is not None
        queue.reject(entry, [plugin.name], "cannot allocate all claims")
    return queue


def measure(client: Client, pods: int, events: int, hints: bool) -> float:
    """Return the microseconds of CPU time for one event."""
    gates = FeatureGates(V1_37)
    manager, clock = DRAManager(Features.from_gates(gates, V1_37)), SystemClock()
    recorder = Recorder(client, "bench", clock=clock, rng=random.Random(1))
    plugin = DynamicResources(gates, manager, client, pod_groups=PodGroups(), recorder=recorder, clock=clock)
    queue = _queue_of_rejected_pods(plugin, pods, hints)
    claims = [_claim(number) for number in random.Random(1).sample(range(pods), events)]
    for claim in claims:
        manager.claims.set_claim(claim)
    before = time.process_time()
    for claim in claims:
        queue.handle_event(Event(Kind.RESOURCE_CLAIM, Action.ADD, None, claim))
    return (time.process_time() - before) / events * 1e6


async def _run(chosen: argparse.Namespace) -> None:
    async with Client("http://127.0.0.1:1") as client:
        for hints in (True, False):
            for pods in chosen.pods:
                found = measure(client, pods, min(chosen.events, pods), hints)
                print(json.dumps({"hints": hints, "pods": pods, "microseconds": round(found, 1)}), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench hints", description=__doc__)
    parser.add_argument("--pods", type=int, nargs="+", default=[100, 1000, 10_000], help="pods that wait")
    parser.add_argument("--events", type=int, default=100, help="events to measure")
    asyncio.run(_run(parser.parse_args(arguments)))
