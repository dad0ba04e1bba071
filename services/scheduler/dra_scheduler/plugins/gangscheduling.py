"""GangScheduling: members of a gang wait until enough of them exist to be scheduled together.

Mirrors upstream's ``pkg/scheduler/framework/plugins/gangscheduling``.
"""

from collections.abc import Sequence

from dra_shared.api.pod import Pod

from dra_scheduler.dra.podgroups import PodGroups, group_key
from dra_scheduler.framework.events import Action, Event, Interest, Kind
from dra_scheduler.framework.status import Status, unresolvable


class GangScheduling:
    """Keeps pods out of the queue whose pod group doesn't exist, or whose gang isn't complete enough."""

    name = "GangScheduling"

    def __init__(self, groups: PodGroups) -> None:
        self._groups = groups

    def pre_enqueue(self, pod: Pod) -> Status | None:
        key = group_key(pod)
        if key is None:
            return None
        group = self._groups.of(pod)
        if group is None:
            return unresolvable(
                f'waiting for pods\'s pod group "{key.partition("/")[2]}" to appear in scheduling queue'
            )
        gang = group.spec.scheduling_policy.gang
        if gang is not None and len(self._groups.members(key)) < gang.min_count:
            return unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
        return None

    def events_to_register(self) -> Sequence[Interest]:
        return (Interest(Kind.POD_GROUP, Action.ADD | Action.UPDATE, self._about_group),)

    def _about_group(self, pod: Pod, event: Event) -> bool:
        subject = event.new
        key = group_key(subject) if isinstance(subject, Pod) else subject.key
        return key == group_key(pod) and self.pre_enqueue(pod) is None
