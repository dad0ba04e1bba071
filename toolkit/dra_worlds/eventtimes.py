"""Timelines from ``kubectl get events -o json``: a pod's first event begins it, and its last one may end it.

Events do not say what a pod requests. The pods and workloads of ``--shapes`` do, by their names.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import orjson
from dra_scheduler.plan.fit import Wanted
from dra_scheduler.plan.replaying.replayer import Arrival, Timeline
from dra_shared.clock import parse_rfc3339
from dra_shared.errors import UserError

from dra_worlds.documents import Document
from dra_worlds.timeshapes import Shapes

# Events of the kubelet and of controllers with which a pod ends.
_ENDS = frozenset({"Killing", "Evicted", "Preempted", "TaintManagerEviction"})
# What controllers append to names: an index, a hash of ReplicaSets, five letters.
_ENDING = re.compile(r"-([a-z0-9]{5}|[0-9]+|[a-f0-9]{8,10})$")


@dataclass
class _Life:
    """A pod's first event, its placement, and its end, in seconds since 1970."""

    first: float
    placed: float | None = None
    end: float | None = None


def from_events(found: Iterable[Document], shapes: Wanted | None, problems: list[str]) -> Timeline:
    """Return the timeline of events. Pods without a shape are left out, and named in ``problems``.

    Raises:
        UserError: there are no shapes.
    """
    lives: dict[tuple[str, str], _Life] = {}
    for document in found:
        _add_event(orjson.loads(bytes(document.data)), lives)
    if shapes is None:
        raise UserError(
            "events do not say what pods request: give a file with the pods or workloads with --shapes"
        )
    known = Shapes(shapes)
    begin = min((life.first for life in lives.values()), default=0.0)
    arrivals: list[Arrival] = []
    unknown = []
    for (space, name), life in lives.items():
        shape = _find_shape(name, known)
        if not shape:
            unknown.append(f"{space}/{name}")
            continue
        since = life.placed if life.placed is not None else life.first
        lasts = None if life.end is None else max(0.0, life.end - since)
        arrivals.append(Arrival(life.first - begin, lasts, known.pod(shape, name, space)))
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        problems.append(
            f"pods of events are left out, because --shapes has no shape for them: {', '.join(unknown[:3])}{more}"
        )
    return Timeline(arrivals, (), known.others)


def _add_event(event: dict[str, object], lives: dict[tuple[str, str], _Life]) -> None:
    involved = event.get("involvedObject") or event.get("regarding")
    if not isinstance(involved, dict) or involved.get("kind") != "Pod":
        return
    times = [
        event.get(name)
        for name in ("firstTimestamp", "eventTime", "deprecatedFirstTimestamp", "lastTimestamp")
    ]
    time = next((parse_rfc3339(each).timestamp() for each in times if isinstance(each, str) and each), None)
    if time is None:
        return
    key = str(involved.get("namespace") or "default"), str(involved.get("name"))
    life = lives.setdefault(key, _Life(time))
    life.first = min(life.first, time)
    if event.get("reason") == "Scheduled":
        life.placed = time
    elif event.get("reason") in _ENDS:
        life.end = time


def _find_shape(name: str, shapes: Shapes) -> str:
    """Return the longest name of a shape that the pod's name begins with, before what controllers append."""
    while not shapes.knows(name):
        shorter = _ENDING.sub("", name)
        if shorter == name:
            return ""
        name = shorter
    return name
