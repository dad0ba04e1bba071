"""Which pods an event about a claim concerns (upstream's pre-queueing hints)."""

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

from tests.scheduler.objects import allocated, claim


def _gone(old: ResourceClaim) -> Event:
    return Event(Kind.RESOURCE_CLAIM, Action.DELETE, old, None)


def test_a_changed_claim_concerns_the_pods_that_refer_to_it() -> None:
    had, has_not = allocated("c", "gpu-0"), claim("c")
    assert interested_in(Event(Kind.RESOURCE_CLAIM, Action.UPDATE, has_not, had)) == ("default/c",)
    # What it had is free for all.
    assert interested_in(Event(Kind.RESOURCE_CLAIM, Action.UPDATE, had, has_not)) is None


def test_a_claim_that_goes_with_its_devices_concerns_all_since_1_37() -> None:
    """TestPreQueueingHint_DeleteEventWithPodInIndexer."""
    assert interested_in_freed(_gone(allocated("c", "gpu-0"))) is None
    assert interested_in_freed(_gone(claim("c"))) == ()
    assert interested_in_deletion(_gone(allocated("c", "gpu-0"))) == ()


def test_each_version_has_its_keys() -> None:
    assert pre_queueing(V1_37) == (interested_in, interested_in_freed)
    assert pre_queueing(V1_36) == (interested_in, interested_in_deletion)


@pytest.mark.parametrize("on", [True, False])
def test_an_event_of_a_claim_asks_the_pods_that_refer_to_it_whatever_the_gate_says(on: bool) -> None:
    gates, clock = FeatureGates(V1_37, SchedulerPreQueueingHints=on), FakeClock()
    manager = DRAManager(Features.from_gates(gates, V1_37))
    client = Client("http://127.0.0.1:1")
    recorder = Recorder(client, "test", clock=clock, rng=random.Random(1))
    plugin = DynamicResources(gates, manager, client, pod_groups=PodGroups(), recorder=recorder, clock=clock)
    keys = [interest.keys for interest in plugin.events_to_register() if interest.kind is Kind.RESOURCE_CLAIM]
    assert keys == [interested_in, interested_in_freed]
