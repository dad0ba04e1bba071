"""The arrivals of a sweep's file: drawn with each seed from a record or a description."""

import csv
import io
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.replaying.replayer import Arrival, Timeline
from dra_shared.errors import UserError

from dra_worlds.timeline import from_csv, timeline
from dra_worlds.wanted import read_pods

_replace = msgspec.structs.replace
_MOST_PODS = 100_000


def read_seeds(document: Mapping[str, Any], where: str) -> list[int]:
    """Return the listed seeds, or for a number N the seeds from 0 to N - 1.

    Raises:
        UserError: they are not numbers.
    """
    seeds = document.get("seeds", 1)
    if isinstance(seeds, int) and not isinstance(seeds, bool) and seeds > 0:
        return list(range(seeds))
    if isinstance(seeds, list) and seeds and all(isinstance(each, int) for each in seeds):
        return list(dict.fromkeys(seeds))
    raise UserError(f"{where}: seeds: must be a number above 0, or a list of numbers")


class Draws:
    """Timelines by seed. ``arrivals`` is the field of that name in the sweep's file.

    Raises:
        UserError: ``arrivals`` is malformed, or a file that it names cannot be read.
    """

    def __init__(self, arrivals: Any, objects: Objects, folder: Path, where: str) -> None:
        if not isinstance(arrivals, dict) or ("recorded" in arrivals) == ("pods" in arrivals):
            raise UserError(
                f"{where}: arrivals: give either recorded (the file of a timeline), or pods and hours"
            )
        self._arrivals, self._where = arrivals, f"{where}: arrivals"
        shapes = arrivals.get("shapes")
        self._shapes = read_pods(str(folder / str(shapes)), objects) if shapes else None
        self._recorded: Timeline | None = None
        self.problems: list[str] = []
        if "recorded" in arrivals:
            source = str(folder / str(arrivals["recorded"]))
            self._recorded, self.problems = timeline(source, objects, self._shapes)

    def draw(self, seed: int) -> Timeline:
        """Return the timeline of a seed. Equal seeds have equal timelines.

        Raises:
            UserError: a description is malformed.
        """
        rng = random.Random(seed)
        if self._recorded is None:
            return from_csv(self._where, self._describe(rng), self._shapes)
        if not self._arrivals.get("resample", True):
            return self._recorded
        return _resample(self._recorded, rng)

    def _describe(self, rng: random.Random) -> str:
        """Return CSV with arrivals of Poisson processes. Durations are exponential, or fixed."""
        hours = self._number(self._arrivals, "hours", self._where)
        rows: list[tuple[float, float, str, str, Any]] = []
        pods = self._arrivals["pods"]
        for number, each in enumerate(pods if isinstance(pods, list) else ()):
            where = f"{self._where}.pods[{number}]"
            if not isinstance(each, dict) or not isinstance(each.get("shape"), str):
                raise UserError(f"{where}: must have shape, perHour and minutes")
            rate, minutes = self._number(each, "perHour", where), self._number(each, "minutes", where)
            now, count = rng.expovariate(rate), 0
            while now < hours and count < _MOST_PODS:
                lasts = minutes if each.get("fixed") else rng.expovariate(1 / minutes)
                end = now * 3600 + lasts * 60
                rows.append(
                    (now * 3600, end, each["shape"], f"pods-{number}-{count}", each.get("priority", ""))
                )
                now, count = now + rng.expovariate(rate), count + 1
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(("start", "end", "shape", "name", "priority"))
        writer.writerows((f"{start:.3f}", f"{end:.3f}", *rest) for start, end, *rest in sorted(rows))
        return text.getvalue()

    def _number(self, given: Mapping[str, Any], name: str, where: str) -> float:
        value = given.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise UserError(f"{where}.{name}: must be a number above 0")
        return float(value)


def _resample(recorded: Timeline, rng: random.Random) -> Timeline:
    """Return as many arrivals as recorded, each with the moment of one recorded arrival and the pod of another.

    Both are drawn with replacement, so that the times of day keep their load.
    """
    known = list(recorded.arrivals)
    times = sorted(rng.choice(known).at for _ in known)
    arrivals = []
    for number, at in enumerate(times):
        other = rng.choice(known)
        meta = other.pod.metadata
        pod = _replace(other.pod, metadata=_replace(meta, name=f"{meta.name}-{number}", uid=""))
        arrivals.append(Arrival(at - times[0], other.lasts, pod))
    return Timeline(arrivals, recorded.groups, recorded.others)
