"""Convert the managers of replicas between a Scale and the scaled object (apimachinery's `ScaleHandler`)."""

from collections.abc import Sequence
from typing import Any

from dra_apiserver.patch.fieldset import FieldSet, difference, intersection
from dra_apiserver.patch.managers import Entry, Managers, read_managers, write_managers

_VERSION = "autoscaling/v1"
_REPLICAS: FieldSet = {"f:spec": {"f:replicas": {}}}


def _path(steps: Sequence[str]) -> FieldSet:
    made: FieldSet = {}
    for step in reversed(steps):
        made = {f"f:{step}": made}
    return made


def to_scale(entries: Any, steps: Sequence[str]) -> list[dict[str, Any]]:
    """Return the managers of a Scale: those of the object's replicas, which are at the path of these ``steps``."""
    path = _path(steps)
    found = {
        key: Entry(_VERSION, _REPLICAS, entry.time)
        for key, entry in read_managers(entries).entries.items()
        if intersection(entry.fields, path)
    }
    return write_managers(Managers(found))


def to_parent(entries: Any, scale: Any, api_version: str, steps: Sequence[str]) -> list[dict[str, Any]]:
    """Return the managers of an object after its Scale with the managers ``scale`` was written."""
    path = _path(steps)
    left = dict(read_managers(scale).entries)
    made = Managers()
    times = {}
    for key, entry in read_managers(entries).entries.items():
        times[key] = entry.time
        if not intersection(entry.fields, path) or left.pop(key, None) is not None:
            made.entries[key] = entry
        elif fields := difference(entry.fields, path):
            made.entries[key] = Entry(entry.api_version, fields, entry.time)
    for key, entry in left.items():
        if intersection(entry.fields, _REPLICAS):
            # In upstream, an updater of the Scale is a different manager than in the object, so its time is
            # lost.
            made.entries[key] = Entry(api_version, path, times.get(key))
    return write_managers(made)
