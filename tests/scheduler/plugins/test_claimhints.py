"""Which pods an event about a claim concerns (upstream's pre-queueing hints)."""

from dra_scheduler.framework.events import Action, Event, Kind
from dra_scheduler.plugins.dynamicresources.hints import freed, interested_in, pre_queueing, special
from dra_shared.api.resource import ResourceClaim
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
    assert freed(_gone(allocated("c", "gpu-0"))) is None
    assert freed(_gone(claim("c"))) == ()
    assert special(_gone(allocated("c", "gpu-0"))) == ()


def test_without_pre_queueing_hints_all_pods_are_asked() -> None:
    gate = "SchedulerPreQueueingHints"
    assert pre_queueing(FeatureGates(V1_37, **{gate: True})) == (interested_in, freed)
    assert pre_queueing(FeatureGates(V1_37, **{gate: False})) == (None, None)
    assert pre_queueing(FeatureGates(V1_36)) == (interested_in, special)
