"""The scheduling queue: pods to try now, pods that back off, and pods that wait for an event.

A rejected pod waits until an event occurs that concerns one of the plugins that rejected it, and that plugin's
queueing hint says that a retry is worthwhile. Then it waits for the rest of its backoff, unless no other pod is
active. After five minutes it is tried again in any case. After an error it backs off at once.
"""

import asyncio
import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from dra_shared.api.pod import Pod
from dra_shared.clock import Clock, wait_for

from dra_scheduler.framework.eventlabels import BACKED_OFF, FAILED, FORCED, POPPED_EARLY, TIMED_OUT
from dra_scheduler.framework.events import Action, Event, Interest, Kind
from dra_scheduler.framework.podchanges import own_changes
from dra_scheduler.framework.status import Status
from dra_scheduler.queue.entry import Place, QueuedPod, entities

MAX_WAIT = 300.0

# Backoffs that end within the same window end together.
_WINDOW = 1.0

_Item = tuple[tuple[float, ...], int, int, QueuedPod]
_Heap = list[_Item]
_Key = TypeVar("_Key")
# The profile's schedulerName, and one of its plugins.
_Plugin = tuple[str, str]
# Why a pod entered a part of the queue: an event, or a label for causes without an event.
Cause = Event | str


class SchedulingQueue:
    """See the module's docstring.

    Until :meth:`set_plugins` is called, every pod may become active and no event wakes a pod.
    ``on_incoming`` is called for each pod that enters a part of the queue. Its last argument is the entity
    that enters with it: ``pod``, ``podgroup``, or empty if its group is already there.
    """

    def __init__(self, clock: Clock, *, initial_backoff: float = 1.0, max_backoff: float = 10.0) -> None:
        self._clock = clock
        self.on_incoming: Callable[[Place, Cause, str], None] = lambda _place, _cause, _entity: None
        self._initial_backoff, self._max_backoff = initial_backoff, max_backoff
        self._pre_enqueue: Callable[[Pod], Status | None] = lambda _: None
        self._interests: dict[_Plugin, tuple[Interest, ...]] = {}
        self._keys: Callable[[Pod], tuple[str, ...]] = lambda _: ()
        self._pods: dict[str, QueuedPod] = {}
        self._by_group: dict[tuple[str, str], dict[str, QueuedPod]] = {}
        self._order = itertools.count()
        self._active: _Heap = []
        # Sorted by the end of the backoff, then like active pods. A backoff after a rejection may be cut short,
        # but not one after an error.
        self._backoff: _Heap = []
        self._error_backoff: _Heap = []
        self._waiting: dict[str, QueuedPod] = {}
        self._by_plugin: dict[_Plugin, dict[str, QueuedPod]] = {}
        self._by_key: dict[str, dict[str, QueuedPod]] = {}
        self._in_flight: dict[str, list[Event]] = {}
        self._changed = asyncio.Event()

    def set_plugins(
        self,
        pre_enqueue: Callable[[Pod], Status | None],
        interests: Mapping[str, Mapping[str, Sequence[Interest]]],
        *,
        keys: Callable[[Pod], tuple[str, ...]],
    ) -> None:
        """Use these plugins. Must be called while the queue is empty.

        ``pre_enqueue`` decides whether a pod may become active. ``interests`` are the events of each
        profile's plugins. ``keys`` returns the names under which events about referenced objects find a pod.
        """
        self._pre_enqueue = pre_enqueue
        self._interests = {
            (profile, plugin): tuple(wanted)
            for profile, plugins in interests.items()
            for plugin, wanted in plugins.items()
        }
        self._keys = keys

    # The informer's events about pods without a node

    def add(self, pod: Pod) -> None:
        """Add a pod without a node."""
        if pod.metadata.uid in self._pods:
            self.update(self._pods[pod.metadata.uid].pod, pod)
            return
        entry = QueuedPod(pod, self._clock.monotonic())
        self._pods[entry.uid] = entry
        if (group := entry.group) is not None:
            self._by_group.setdefault(group, {})[entry.uid] = entry
        self._admit(entry, Event(Kind.TARGET_POD, Action.ADD, None, pod))

    def update(self, old: Pod, new: Pod) -> None:
        """Update a pod without a node."""
        entry = self._pods.get(new.metadata.uid)
        if entry is None:
            self.add(new)
            return
        entry.pod = new
        event = Event(Kind.TARGET_POD, own_changes(old, new), old, new)
        if not event.action:
            return
        if entry.place is Place.IN_FLIGHT:
            self._in_flight.get(entry.uid, []).append(event)
        elif entry.place is Place.WAITING:
            self._reindex(entry)
            if self._is_worth_retry(entry, event):
                self._retry(entry, event)
        elif entry.place is Place.ACTIVE:
            self._activate(entry)

    def delete(self, uid: str) -> None:
        """Remove a pod that was deleted or has a node now."""
        entry = self._pods.pop(uid, None)
        if entry is not None:
            self._leave(entry)
            self._in_flight.pop(uid, None)
            if (group := entry.group) is not None:
                _take_out(self._by_group, group, uid)

    def get(self, uid: str) -> QueuedPod | None:
        """Return the pod's entry in any part of the queue, or None."""
        return self._pods.get(uid)

    def waiting_for(self, key: str) -> list[QueuedPod]:
        """Return the pods in any part of the queue that refer to the object of that name."""
        return [entry for entry in self._pods.values() if key in self._keys(entry.pod)]

    def __len__(self) -> int:
        return len(self._pods)

    def count_by_place(self) -> dict[str, int]:
        """Return the number of pods in each part. Pods that plugins keep out count as ``gated``."""
        counted = {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0, "in flight": 0}
        for entry in self._pods.values():
            counted["gated" if entry.gated else entry.place.value] += 1
        return counted

    def entities(self) -> Counter[tuple[str, str]]:
        """Count pods without a group and groups, by place and ``pod`` or ``podgroup``."""
        return entities(self._pods.values())

    # Attempts

    async def pop(self) -> QueuedPod:
        """Wait for the next pod to try. It is in flight until it is requeued or deleted."""
        while True:
            entry = self.try_pop()
            if entry is not None:
                return entry
            self._changed.clear()
            await self._wait(self.next_due())

    def try_pop(self) -> QueuedPod | None:
        """Return the next pod to try if there is one now, or None."""
        now = self._clock.monotonic()
        for heap in (self._backoff, self._error_backoff):
            while heap and (_is_stale(heap[0]) or _end(heap[0]) <= now):
                due = heapq.heappop(heap)
                if not _is_stale(due):
                    self._admit(due[3], BACKED_OFF)
        # If nothing is active, there is no reason to wait for the end of a backoff.
        for heap in (self._active, self._backoff):
            while heap:
                item = heapq.heappop(heap)
                if _is_stale(item):
                    continue
                if heap is self._active:
                    return self._take(item[3])
                if self._pre_enqueue(item[3].pod) is None:
                    self._report_arrival(item[3], Place.ACTIVE, POPPED_EARLY)
                    return self._take(item[3])
                self._admit(item[3], POPPED_EARLY)
        return None

    def next_due(self) -> float | None:
        """Return the seconds until the next backoff ends, or None if no pod backs off."""
        dues = [_end(heap[0]) for heap in (self._backoff, self._error_backoff) if heap]
        return min(dues) - self._clock.monotonic() if dues else None

    def has_active(self) -> bool:
        """True if a pod can be tried now."""
        return any(not _is_stale(item) for item in self._active)

    def is_gated(self, entry: QueuedPod) -> bool:
        """True if a plugin keeps the pod out now.

        A gang's pods stay gated until they are tried together with another member.
        """
        return entry.gated and self._pre_enqueue(entry.pod) is not None

    def take_members(self, is_member: Callable[[Pod], bool]) -> list[QueuedPod]:
        """Remove and return the members that can be tried together: not in flight, and not kept out by a plugin."""
        members = [
            entry
            for entry in self._pods.values()
            if entry.place is not Place.IN_FLIGHT
            and is_member(entry.pod)
            and (entry.place is Place.ACTIVE or self._pre_enqueue(entry.pod) is None)
        ]
        return [self._take(entry) for entry in sorted(members, key=lambda entry: entry.since)]

    def reject(self, entry: QueuedPod, plugins: Iterable[str], message: str) -> None:
        """Requeue a pod whose attempt failed because these plugins rejected it."""
        events = self._in_flight.pop(entry.uid, [])
        if entry.uid not in self._pods:
            return
        entry.rejections += 1
        entry.errors = 0
        entry.since = self._clock.monotonic()
        entry.rejected_by, entry.message = frozenset(plugins), message
        if any(self._is_worth_retry(entry, event) for event in events):
            self._retry(entry, FAILED)
        else:
            self._wait_for_events(entry, FAILED)

    def fail(self, entry: QueuedPod, message: str) -> None:
        """Requeue a pod whose attempt ended in an error."""
        self._in_flight.pop(entry.uid, None)
        if entry.uid not in self._pods:
            return
        entry.errors += 1
        entry.since = self._clock.monotonic()
        entry.rejected_by, entry.message = frozenset(), message
        self._back_off(entry, self._error_backoff, entry.errors, FAILED)

    def finish(self, entry: QueuedPod) -> None:
        """Record that the attempt gave the pod a node, to which it is now being bound."""
        self._in_flight.pop(entry.uid, None)

    # Events

    def handle_event(self, event: Event, *, priority: int | None = None) -> None:
        """Retry the pods for which the event may make a difference.

        With ``priority``, pods of a higher priority are skipped.
        """
        for events in self._in_flight.values():
            events.append(event)
        if not self._waiting:
            return
        candidates: dict[str, QueuedPod] = {}
        interested = self._interested_plugins(self._by_plugin, event)
        for plugin, interests in interested.items():
            for interest in interests:
                keys = interest.keys(event) if interest.keys is not None else None
                if keys is None:
                    candidates.update(self._by_plugin[plugin])
                else:
                    for key in keys:
                        candidates.update(self._by_key.get(key, {}))
        for entry in candidates.values():
            if priority is not None and (entry.pod.spec.priority or 0) > priority:
                continue
            if entry.place is Place.WAITING and _is_hinted(entry, event, interested):
                self._retry(entry, event)

    def activate(self, uids: Iterable[str]) -> None:
        """Retry these pods now if they wait or back off."""
        for uid in uids:
            entry = self._pods.get(uid)
            if entry is not None and entry.place in (Place.WAITING, Place.BACKOFF):
                self._admit(entry, FORCED)

    def flush(self) -> None:
        """Retry pods that have waited for very long, because an event may have been missed."""
        overdue = self._clock.monotonic() - MAX_WAIT
        for entry in list(self._waiting.values()):
            if entry.since < overdue and not entry.gated:
                self._retry(entry, TIMED_OUT)

    # Moves between the parts of the queue

    def _take(self, entry: QueuedPod) -> QueuedPod:
        self._leave(entry)
        entry.place = Place.IN_FLIGHT
        entry.attempts += 1
        if entry.first_attempt is None:
            entry.first_attempt = self._clock.monotonic()
        entry.gated = False
        self._in_flight[entry.uid] = []
        return entry

    def _admit(self, entry: QueuedPod, cause: Cause) -> None:
        """Make the pod active if the plugins allow it."""
        status = self._pre_enqueue(entry.pod)
        if status is None:
            self._activate(entry)
            self._report_arrival(entry, Place.ACTIVE, cause)
            return
        self._leave(entry)
        entry.gated = True
        # The earlier reasons may change in the meantime, so keep them as well.
        entry.rejected_by |= {status.plugin}
        entry.message = status.message
        self._wait_for_events(entry, cause)

    def _activate(self, entry: QueuedPod) -> None:
        self._leave(entry)
        entry.place, entry.gated = Place.ACTIVE, False
        heapq.heappush(self._active, (_turn(entry), next(self._order), entry.version, entry))
        self._changed.set()

    def _retry(self, entry: QueuedPod, cause: Cause) -> None:
        """Try a pod again once its backoff is over."""
        if entry.gated or not entry.rejections:
            self._admit(entry, cause)
        else:
            self._back_off(entry, self._backoff, entry.rejections, cause)

    def _back_off(self, entry: QueuedPod, heap: _Heap, failures: int, cause: Cause) -> None:
        self._leave(entry)
        due = entry.since + self._backoff_of(failures)
        # Backoffs that end in the same second end together. The queue's usual order applies among these pods.
        item = ((float(due // _WINDOW), *_turn(entry)), next(self._order), entry.version, entry)
        if _end(item) <= self._clock.monotonic():
            self._admit(entry, cause)
            return
        entry.place = Place.BACKOFF
        self._report_arrival(entry, Place.BACKOFF, cause)
        heapq.heappush(heap, item)
        self._changed.set()

    def _backoff_of(self, failures: int) -> float:
        # Limit the exponent to avoid an overflow. The result is far above any maximum.
        return min(self._initial_backoff * 2.0 ** min(failures - 1, 1000), self._max_backoff)

    def _wait_for_events(self, entry: QueuedPod, cause: Cause) -> None:
        self._leave(entry)
        if not _stays(entry, cause):
            self._report_arrival(entry, Place.WAITING, cause)
        entry.place = Place.WAITING
        self._waiting[entry.uid] = entry
        self._reindex(entry)

    def _report_arrival(self, entry: QueuedPod, place: Place, cause: Cause) -> None:
        group = entry.group
        entity = "pod"
        if group is not None:
            others = (other for other in self._by_group.get(group, {}).values() if other is not entry)
            entity = "" if any(other.place is place for other in others) else "podgroup"
        self.on_incoming(place, cause, entity)

    def _reindex(self, entry: QueuedPod) -> None:
        self._unindex(entry)
        for plugin in entry.rejected_by:
            self._by_plugin.setdefault((entry.profile, plugin), {})[entry.uid] = entry
        entry.keys = self._keys(entry.pod)
        for key in entry.keys:
            self._by_key.setdefault(key, {})[entry.uid] = entry

    def _unindex(self, entry: QueuedPod) -> None:
        for plugin in entry.rejected_by:
            _take_out(self._by_plugin, (entry.profile, plugin), entry.uid)
        for key in entry.keys:
            _take_out(self._by_key, key, entry.uid)
        entry.keys = ()

    def _leave(self, entry: QueuedPod) -> None:
        entry.version += 1
        if self._waiting.pop(entry.uid, None) is not None:
            self._unindex(entry)

    def _is_worth_retry(self, entry: QueuedPod, event: Event) -> bool:
        plugins = [(entry.profile, plugin) for plugin in entry.rejected_by]
        return _is_hinted(entry, event, self._interested_plugins(plugins, event))

    def _interested_plugins(self, plugins: Iterable[_Plugin], event: Event) -> dict[_Plugin, list[Interest]]:
        """Return the plugins to which the event may matter, with their matching interests."""
        found = {
            plugin: [i for i in self._interests.get(plugin, ()) if i.covers(event)] for plugin in plugins
        }
        return {plugin: interests for plugin, interests in found.items() if interests}

    async def _wait(self, seconds: float | None) -> None:
        """Wait until the queue changes or the seconds have passed."""
        await wait_for(self._changed.wait(), seconds, self._clock)


def _is_hinted(entry: QueuedPod, event: Event, interested: Mapping[_Plugin, Sequence[Interest]]) -> bool:
    """True if a plugin that rejected the pod hints at a retry. `interested` are the plugins to ask."""
    return any(
        interest.hint is None or interest.hint(entry.pod, event)
        for plugin in entry.rejected_by
        for interest in interested.get((entry.profile, plugin), ())
    )


def _take_out(index: dict[_Key, dict[str, QueuedPod]], key: _Key, uid: str) -> None:
    pods = index.get(key)
    if pods is not None:
        pods.pop(uid, None)
        if not pods:
            del index[key]


def _is_stale(item: _Item) -> bool:
    return item[2] != item[3].version


def _turn(entry: QueuedPod) -> tuple[float, float]:
    return -float(entry.pod.spec.priority or 0), entry.since


def _end(backing_off: _Item) -> float:
    return (backing_off[0][0] + 1) * _WINDOW


def _stays(entry: QueuedPod, cause: Cause) -> bool:
    """True if a waiting pod stays in its part of the queue because plugins keep it out of the active queue.

    Upstream does not count it as incoming.
    """
    own = isinstance(cause, Event) and cause.kind is Kind.TARGET_POD
    return entry.place is Place.WAITING and (own or cause == FORCED)
