"""The pods that an event about a claim concerns (upstream's pre-queueing hints)."""

import random

import pytest
from dra_scheduler.allocator import Features
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.dra.podgroups import PodGroups
from dra_scheduler.framework.events import Action, Event, Kind
from dra_scheduler.plugins.dynamicresources.hints import (
    interested_in,
    interested_in_deletion,
    interested_in_freed,
    pre_queueing,
)
from dra_scheduler.plugins.dynamicresources.plugin import DynamicResources
from dra_shared.api.resource import ResourceClaim
from dra_shared.client.events import Recorder
from dra_shared.client.rest import Client
from dra_shared.clock import FakeClock
from dra_shared.features import FeatureGates
from dra_shared.version import V1_36, V1_37

from tests.scheduler.objects import allocated_claim, claim


def _delete_event(old: ResourceClaim) -> Event:
    return Event(Kind.RESOURCE_CLAIM, Action.DELETE, old, None)


def test_a_changed_claim_concerns_the_pods_that_refer_to_it() -> None:
    had, has_not = allocated_claim("c", "gpu-0"), claim("c")
    assert interested_in(Event(Kind.RESOURCE_CLAIM, Action.UPDATE, has_not, had)) == ("default/c",)
    # The devices of the claim are free for all pods.
    assert interested_in(Event(Kind.RESOURCE_CLAIM, Action.UPDATE, had, has_not)) is None


def test_the_deletion_of_an_allocated_claim_concerns_all_pods_since_1_37() -> None:
    """Follows upstream's TestPreQueueingHint_DeleteEventWithPodInIndexer."""
    assert interested_in_freed(_delete_event(allocated_claim("c", "gpu-0"))) is None
    assert interested_in_freed(_delete_event(claim("c"))) == ()
    assert interested_in_deletion(_delete_event(allocated_claim("c", "gpu-0"))) == ()


def test_each_kubernetes_version_has_its_own_keys_for_the_index_of_pods_by_claim() -> None:
    assert pre_queueing(V1_37) == (interested_in, interested_in_freed)
    assert pre_queueing(V1_36) == (interested_in, interested_in_deletion)


@pytest.mark.parametrize("on", [True, False])
def test_an_event_of_a_claim_runs_the_hints_of_its_pods_with_and_without_the_gate(on: bool) -> None:
    gates, clock = FeatureGates(V1_37, SchedulerPreQueueingHints=on), FakeClock()
    manager = DRAManager(Features.from_gates(gates, V1_37))
    client = Client("http://127.0.0.1:1")
    recorder = Recorder(client, "test", clock=clock, rng=random.Random(1))
    plugin = DynamicResources(gates, manager, client, pod_groups=PodGroups(), recorder=recorder, clock=clock)
    keys = [interest.keys for interest in plugin.events_to_register() if interest.kind is Kind.RESOURCE_CLAIM]
    assert keys == [interested_in, interested_in_freed]
