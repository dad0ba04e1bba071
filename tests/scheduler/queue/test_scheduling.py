"""The scheduling queue: order, back-off, unschedulable pods, and the events that requeue them."""

import asyncio

import msgspec
from dra_scheduler.framework.eventlabels import event_label
from dra_scheduler.framework.events import Action, Event, Interest, Kind
from dra_scheduler.framework.status import Status, unresolvable
from dra_scheduler.queue.entry import Place, QueuedPod
from dra_scheduler.queue.scheduling import SchedulingQueue
from dra_shared.api.pod import Pod
from dra_shared.clock import FakeClock, settle
from dra_shared.version import V1_37

from tests.scheduler.objects import node, pod


def _gate(pod: Pod) -> Status | None:
    return unresolvable("gated").of("Gates") if pod.spec.scheduling_gates else None


def _queue(clock: FakeClock) -> SchedulingQueue:
    interests = {
        "Gates": (Interest(Kind.TARGET_POD, Action.POD_GATES),),
        "Fit": (Interest(Kind.NODE, Action.ADD),),
        "Claims": (
            Interest(Kind.RESOURCE_CLAIM, Action.ADD, keys=lambda event: (event.new,)),
            Interest(
                Kind.RESOURCE_CLAIM, Action.DELETE, hint=lambda pod, event: pod.metadata.name == event.old
            ),
        ),
    }
    queue = SchedulingQueue(clock)
    queue.set_plugins(
        _gate, {"default-scheduler": interests}, keys=lambda pod: tuple(pod.metadata.annotations)
    )
    return queue


def _take(queue: SchedulingQueue) -> QueuedPod:
    entry = queue.try_pop()
    assert entry is not None
    return entry


def _reject(queue: SchedulingQueue, name: str) -> QueuedPod:
    """Add a pod and reject it for lack of room."""
    queue.add(pod(name))
    entry = _take(queue)
    queue.reject(entry, {"Fit"}, "no room")
    return entry


async def test_pods_are_popped_by_priority_and_then_by_arrival() -> None:
    clock = FakeClock()
    queue = _queue(clock)
    queue.add(pod("first"))
    await clock.advance(1)
    queue.add(pod("second"))
    queue.add(pod("urgent", priority=10))
    assert [_take(queue).pod.metadata.name for _ in range(3)] == ["urgent", "first", "second"]
    assert queue.try_pop() is None


async def test_pop_waits_for_a_pod() -> None:
    queue = _queue(FakeClock())
    popped = asyncio.ensure_future(queue.pop())
    await settle()
    assert not popped.done()
    queue.add(pod("late"))
    assert (await popped).pod.metadata.name == "late"


async def test_rejected_pod_waits_for_an_event_that_its_plugin_wants() -> None:
    clock = FakeClock()
    queue = _queue(clock)
    entry = _reject(queue, "p")
    assert queue.count_by_place()["unschedulable"] == 1
    queue.handle_event(Event(Kind.NODE, Action.NODE_LABEL, node("n"), node("n")))
    queue.handle_event(Event(Kind.RESOURCE_CLAIM, Action.ADD, None, "default/c"))
    assert queue.try_pop() is None
    queue.handle_event(Event(Kind.NODE, Action.ADD, None, node("n")))
    # If nothing else is active, the back-off is cut short.
    assert entry.place is Place.BACKOFF
    assert _take(queue) is entry


async def test_other_pods_are_popped_before_a_pod_that_backs_off() -> None:
    clock = FakeClock()
    queue = _queue(clock)
    loser = _reject(queue, "loser")
    queue.add(pod("other"))
    queue.handle_event(Event(Kind.NODE, Action.ADD, None, node("n")))
    assert _take(queue).pod.metadata.name == "other"
    assert _take(queue) is loser


async def test_pods_whose_back_off_ends_in_the_same_second_are_popped_by_priority() -> None:
    clock = FakeClock()
    queue = _queue(clock)
    for name, priority in (("low", 1), ("high", 10)):
        queue.add(pod(name, priority=priority))
        queue.reject(_take(queue), {"Fit"}, "no room")
        await clock.advance(0.1)
    await clock.advance(0.85)  # low has backed off for a second, high not yet
    queue.handle_event(Event(Kind.NODE, Action.ADD, None, node("n")))
    assert [_take(queue).pod.metadata.name for _ in range(2)] == ["high", "low"]


async def test_an_event_during_an_attempt_requeues_the_pod() -> None:
    queue = _queue(FakeClock())
    queue.add(pod("p"))
    entry = _take(queue)
    queue.handle_event(Event(Kind.NODE, Action.ADD, None, node("n")))
    queue.reject(entry, {"Fit"}, "no room")
    assert entry.place is Place.BACKOFF


async def test_the_back_off_doubles_after_each_error() -> None:
    clock = FakeClock()
    queue = _queue(clock)
    queue.add(pod("p"))
    for delay in (1, 2, 4, 8, 10, 10):
        entry = _take(queue)
        queue.fail(entry, "server down")
        # Up to the end of the second in which the back-off ends.
        await clock.advance(delay + 0.5)
        assert queue.try_pop() is None
        await clock.advance(0.5)
    assert _take(queue).attempts == 7


async def test_pop_wakes_when_a_back_off_ends() -> None:
    clock = FakeClock()
    queue = _queue(clock)
    queue.add(pod("p"))
    queue.fail(_take(queue), "server down")
    popped = asyncio.ensure_future(queue.pop())
    await clock.advance(1.9)
    assert not popped.done()
    await clock.advance(0.2)
    assert (await popped).pod.metadata.name == "p"


async def test_gated_pod_is_not_queued_until_its_gates_are_removed() -> None:
    queue = _queue(FakeClock())
    gated = pod("p", schedulingGates=[{"name": "wait"}])
    queue.add(gated)
    assert queue.try_pop() is None
    assert queue.count_by_place()["gated"] == 1
    queue.handle_event(Event(Kind.NODE, Action.ADD, None, node("n")))
    assert queue.try_pop() is None
    queue.update(gated, pod("p"))
    assert _take(queue).pod.metadata.name == "p"


async def test_events_about_an_object_reach_only_pods_that_refer_to_it() -> None:
    queue = _queue(FakeClock())
    for name in ("a", "b"):
        meta = msgspec.structs.replace(pod(name).metadata, annotations={f"claim-{name}": ""})
        queue.add(msgspec.structs.replace(pod(name), metadata=meta))
        queue.reject(_take(queue), {"Claims"}, "in use")
    assert [entry.pod.metadata.name for entry in queue.waiting_for("claim-b")] == ["b"]
    queue.handle_event(Event(Kind.RESOURCE_CLAIM, Action.ADD, None, "claim-b"))
    assert _take(queue).pod.metadata.name == "b"
    assert queue.try_pop() is None
    queue.handle_event(Event(Kind.RESOURCE_CLAIM, Action.DELETE, "a", None))
    assert _take(queue).pod.metadata.name == "a"


async def test_the_cost_of_an_event_about_an_object_is_independent_of_the_number_of_waiting_pods() -> None:
    """Upstream's pre-queueing hints (KEP-6132): only pods that the index has for the object run their hints."""
    asked: list[str] = []

    def hint(waiting: Pod, _: Event) -> bool:
        asked.append(waiting.metadata.name)
        return False

    interest = Interest(Kind.RESOURCE_CLAIM, Action.ADD, hint, keys=lambda event: (event.new,))
    queue = SchedulingQueue(FakeClock())
    queue.set_plugins(
        lambda _: None,
        {"default-scheduler": {"Claims": (interest,)}},
        keys=lambda waiting: tuple(waiting.metadata.labels),
    )
    for number in range(500):
        queue.add(pod(f"p{number}", labels={f"claim-{number}": ""}))
        queue.reject(_take(queue), ["Claims"], "no")
    queue.handle_event(Event(Kind.RESOURCE_CLAIM, Action.ADD, None, "claim-7"))
    assert asked == ["p7"]


async def test_an_unschedulable_pod_is_retried_after_five_minutes() -> None:
    clock = FakeClock()
    queue = _queue(clock)
    queue.add(pod("p"))
    queue.reject(_take(queue), {"Fit"}, "no room")
    await clock.advance(299)
    queue.flush()
    assert queue.try_pop() is None
    await clock.advance(2)
    queue.flush()
    assert _take(queue).pod.metadata.name == "p"


async def test_deleted_pod_is_never_popped() -> None:
    queue = _queue(FakeClock())
    queue.add(pod("p"))
    queue.delete("uid-p")
    assert queue.try_pop() is None
    queue.add(pod("q"))
    entry = _take(queue)
    queue.delete("uid-q")
    queue.reject(entry, {"Fit"}, "no room")
    queue.fail(entry, "too late")
    assert len(queue) == 0


async def test_members_of_a_group_are_popped_together() -> None:
    queue = _queue(FakeClock())
    for name in ("gang-0", "other", "gang-1"):
        queue.add(pod(name))
    members = queue.take_members(lambda candidate: candidate.metadata.name.startswith("gang"))
    assert [entry.pod.metadata.name for entry in members] == ["gang-0", "gang-1"]
    assert _take(queue).pod.metadata.name == "other"


async def test_activating_an_unschedulable_pod_queues_it_again() -> None:
    queue = _queue(FakeClock())
    queue.add(pod("p"))
    queue.reject(_take(queue), {"Fit"}, "no room")
    queue.activate(["uid-p", "unknown"])
    assert _take(queue).pod.metadata.name == "p"


async def test_a_pod_that_is_gated_when_its_back_off_is_cut_short_is_not_lost() -> None:
    queue = _queue(FakeClock())
    entry = _reject(queue, "p")
    queue.handle_event(Event(Kind.NODE, Action.ADD, None, node("n")))
    assert entry.place is Place.BACKOFF
    entry.pod = pod("p", schedulingGates=[{"name": "g"}])
    assert queue.try_pop() is None
    assert queue.count_by_place()["gated"] == 1
    queue.update(entry.pod, pod("p"))
    assert _take(queue) is entry


def _arrivals(queue: SchedulingQueue) -> list[tuple[str, str]]:
    """Return a counter of arrivals from now on, by queue and event (the cause, in metrics of 1.37)."""
    seen: list[tuple[str, str]] = []
    queue.on_incoming = lambda place, cause, _: seen.append(
        (place.value, cause if isinstance(cause, str) else event_label(cause, V1_37))
    )
    return seen


async def test_pods_added_to_a_queue_are_counted_by_event() -> None:
    clock = FakeClock()
    queue = _queue(clock)
    seen = _arrivals(queue)
    queue.add(pod("p"))
    queue.reject(_take(queue), {"Fit"}, "no room")
    queue.handle_event(Event(Kind.NODE, Action.ADD, None, node("n")))
    queue.reject(_take(queue), {"Fit"}, "no room")
    queue.handle_event(Event(Kind.NODE, Action.ADD, None, node("n")))
    await clock.advance(20)
    queue.fail(_take(queue), "broken")
    assert seen == [
        ("active", "UnscheduledPodAdd"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("backoff", "NodeAdd"),
        ("active", "PopFromBackoffQ"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("backoff", "NodeAdd"),
        ("active", "BackoffComplete"),
        ("backoff", "ScheduleAttemptFailure"),
    ]


async def test_an_event_during_an_attempt_is_counted_once_as_its_failure() -> None:
    queue = _queue(FakeClock())
    queue.add(pod("p"))
    entry = _take(queue)
    queue.handle_event(Event(Kind.NODE, Action.ADD, None, node("n")))
    seen = _arrivals(queue)
    queue.reject(entry, {"Fit"}, "no room")
    assert seen == [("backoff", "ScheduleAttemptFailure")]


async def test_pods_requeued_by_activation_or_timeout_are_counted() -> None:
    clock = FakeClock()
    queue = _queue(clock)
    entry = _reject(queue, "p")
    seen = _arrivals(queue)
    queue.activate([entry.uid])
    queue.reject(_take(queue), {"Fit"}, "no room")
    await clock.advance(301)
    queue.flush()
    assert seen == [
        ("active", "ForceActivate"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("active", "UnschedulableTimeout"),
    ]


async def test_a_gated_pod_is_counted_once_until_its_gates_are_removed() -> None:
    queue = _queue(FakeClock())
    seen = _arrivals(queue)
    gated = pod("p", schedulingGates=[{"name": "g"}])
    queue.add(gated)
    queue.activate([gated.metadata.uid])
    queue.update(gated, pod("p"))
    assert seen == [
        ("unschedulable", "UnscheduledPodAdd"),
        ("active", "TargetPodUpdatePodSchedulingGatesEliminated"),
    ]
