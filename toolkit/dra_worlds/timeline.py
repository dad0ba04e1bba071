"""Timelines of pods: CSV of start, end and shape, dumps, and recorded watches."""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import Any

import msgspec
from dra_scheduler.plan.fit import Wanted
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.replaying.replayer import Arrival, Timeline
from dra_shared.api.meta import Object, ObjectMeta
from dra_shared.api.pod import Pod
from dra_shared.api.resource import (
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from dra_shared.api.resources import POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from dra_shared.boundedfiles import MOST, size_text
from dra_shared.clock import parse_rfc3339
from dra_shared.errors import UserError
from dra_shared.jsontext import dumps

from dra_worlds.documents import Document, documents
from dra_worlds.eventtimes import from_events
from dra_worlds.files import texts
from dra_worlds.reading import world
from dra_worlds.timeshapes import Shapes

_replace = msgspec.structs.replace
# The accepted names of each column: ours, and then labels and metrics of kube-state-metrics.
_COLUMNS = {
    "start": ("start", "kube_pod_start_time", "kube_pod_created"),
    "end": ("end", "kube_pod_completion_time"),
    "name": ("name", "pod"),
    "gpus": ("gpus", "kube_pod_container_resource_requests"),
}
_WORD = re.compile(r"\S")
_WATCHED = re.compile(rb'\s*\{\s*"type"\s*:')


def timeline(source: str, objects: Objects, shapes: Wanted | None) -> tuple[Timeline, list[str]]:
    """Read a timeline, and report what could not be read. ``shapes`` has the pods that a CSV names.

    Raises:
        UserError: it cannot be read, or has no pods.
    """
    problems: list[str] = []
    read = texts(source, problems)
    where, text = next(read, (source, b""))
    if len(text) > MOST and (source.endswith(".csv") or _WATCHED.match(text)):
        raise UserError(f"{where} is larger than {size_text(MOST)}")
    if source.endswith(".csv"):
        found = from_csv(where, bytes(text).decode(errors="replace"), shapes)
    elif _WATCHED.match(text):
        found = _from_dump(world(_read_watch(where, bytes(text)), problems), objects)
    else:
        parts = chain([(where, text)], read)
        dump = list(chain.from_iterable(documents(where, text, problems) for where, text in parts))
        events = [document for document in dump if document.kind == "Event"]
        if events and not any(document.kind == "Pod" for document in dump):
            found = from_events(events, shapes, problems)
        else:
            found = _from_dump(world(dump, problems), objects)
    if not found.arrivals:
        raise UserError(f"no pods in {source}{f': {problems[0]}' if problems else ''}")
    return found, problems


# CSV


def from_csv(where: str, text: str, shapes: Wanted | None) -> Timeline:
    """Return the timeline of CSV text, which comes from ``where``.

    Raises:
        UserError: a row is malformed.
    """
    rows = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    names = {other: name for name, others in _COLUMNS.items() for other in others}
    head = [names.get(each.strip(), each.strip()) for each in rows.fieldnames or ()]
    if not {"start", "end"} <= set(head) or not {"shape", "gpus"} & set(head):
        raise UserError(f"{where}: the first line must name the columns start, end and shape")
    rows.fieldnames = head
    known = Shapes(shapes)
    found: list[tuple[float, float | None, Pod, int]] = []
    for number, row in enumerate(rows, 2):
        try:
            start, end = _moment(row["start"]), _moment(row["end"])
            if start is None:
                raise ValueError("a pod needs a start")
            if end is not None and end < start:
                raise ValueError("it ends before it starts")
            shape = row.get("shape") or _shape_of_gpus(row)
            pod = known.pod(shape, row.get("name") or f"row-{number}", row.get("namespace") or "default")
            if row.get("priority"):
                pod = _replace(pod, spec=_replace(pod.spec, priority=int(row["priority"])))
            found.append((start, None if end is None else end - start, pod, int(row.get("count") or 1)))
        except (ValueError, TypeError) as error:
            raise UserError(f"{where}:{number}: {error}") from error
    begin = min((start for start, *_ in found), default=0.0)
    arrivals = [
        Arrival(start - begin, lasts, _rename_copy(pod, copy, copies))
        for start, lasts, pod, copies in found
        for copy in range(copies)
    ]
    return Timeline(arrivals, (), known.others)


def _shape_of_gpus(row: Mapping[str, str | None]) -> str:
    """Return the shape of a row with a number of devices in place of a shape."""
    return f"{int(float(row.get('gpus') or 0))}x{row.get('class') or 'gpu.nvidia.com'}"


def _rename_copy(pod: Pod, copy: int, copies: int) -> Pod:
    if copies == 1:
        return pod
    return _replace(pod, metadata=_replace(pod.metadata, name=f"{pod.metadata.name}-{copy}"))


def _moment(text: str | None) -> float | None:
    """Return the seconds of a number or a time."""
    text = (text or "").strip()
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


# Dumps and watches


def _read_watch(where: str, text: bytes) -> Iterator[Document]:
    """Yield the last state of each object in a recorded watch (such as ``kubectl get --watch -o json``)."""
    decoder, rest = json.JSONDecoder(), text.decode(errors="replace")
    last: dict[str, dict[str, Any]] = {}
    position = 0
    while (start := _WORD.search(rest, position)) is not None:
        try:
            event, position = decoder.raw_decode(rest, start.start())
        except ValueError:
            break
        obj = event.get("object") if isinstance(event, dict) else None
        if isinstance(obj, dict) and isinstance(obj.get("metadata"), dict):
            last[str(obj["metadata"].get("uid") or len(last))] = obj
    for obj in last.values():
        yield Document(str(obj.get("apiVersion")), str(obj.get("kind")), dumps(obj), True, where)


def _from_dump(found: Objects, objects: Objects) -> Timeline:
    """Return the arrivals and departures of a dump's pods. A pod departs when it ends or is deleted."""
    pods = [pod for pod in found.of(PODS).values() if pod.metadata.creation_timestamp]
    everything = objects.with_objects((resource, obj) for resource, each in found for obj in each.values())
    make = _Fresh(everything)
    begin = min((_time(pod.metadata.creation_timestamp) for pod in pods), default=0.0)
    arrivals = []
    for pod in pods:
        created = _time(pod.metadata.creation_timestamp)
        started = _time(pod.status.start_time) if pod.status.start_time else created
        end = _end(pod)
        lasts = None if end is None else max(0.0, end - started)
        arrivals.append(Arrival(created - begin, lasts, make.pod(pod)))
    return Timeline(arrivals, tuple(found.of(POD_GROUPS).values()), make.others())


class _Fresh:
    """Pods and claims as they were created, without any decision of a scheduler."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._made: dict[str, tuple[Resource[Any], Object]] = {}

    def pod(self, pod: Pod) -> Pod:
        """Return the pod as it arrived."""
        claims = self._objects.of(RESOURCE_CLAIMS)
        statuses = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
        for entry in pod.spec.resource_claims:
            space, template = pod.metadata.namespace, entry.resource_claim_template_name
            if template is None:
                claim = claims.get(f"{space}/{entry.resource_claim_name}")
                if claim is not None:
                    fresh = _replace(claim, status=ResourceClaimStatus())
                    self._made[f"claim {claim.key}"] = RESOURCE_CLAIMS, fresh
            elif f"{space}/{template}" not in self._objects.of(RESOURCE_CLAIM_TEMPLATES):
                claim = claims.get(f"{space}/{statuses.get(entry.name)}")
                if claim is not None:
                    self._made[f"template {space}/{template}"] = _template_of(claim, space, template)
        meta = _replace(pod.metadata, deletion_timestamp=None)
        return Pod(metadata=meta, spec=_replace(pod.spec, node_name=""))

    def others(self) -> list[tuple[Resource[Any], Object]]:
        """Return the objects that the pods refer to and the world lacks."""
        templates = self._objects.of(RESOURCE_CLAIM_TEMPLATES).values()
        return [*((RESOURCE_CLAIM_TEMPLATES, each) for each in templates), *self._made.values()]


def _template_of(claim: ResourceClaim, namespace: str, name: str) -> tuple[Resource[Any], Object]:
    meta = ObjectMeta(name=name, namespace=namespace)
    return RESOURCE_CLAIM_TEMPLATES, ResourceClaimTemplate(
        metadata=meta, spec=ResourceClaimTemplateSpec(spec=claim.spec)
    )


def _end(pod: Pod) -> float | None:
    ends = [
        _time(status.state.terminated.finished_at)
        for status in pod.status.container_statuses
        if status.state.terminated is not None and status.state.terminated.finished_at
    ]
    if pod.status.phase in ("Succeeded", "Failed") and ends:
        return max(ends)
    return _time(pod.metadata.deletion_timestamp) if pod.metadata.deletion_timestamp else None


def _time(text: str | None) -> float:
    return parse_rfc3339(text).timestamp() if text else 0.0
