"""Relations of nodes to objects through the pods on them (plugin/pkg/auth/authorizer/node/graph.go).

Upstream's informers may lag behind. Here each query first processes all stored changes.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from dra_shared.jsontypes import JsonObject

from dra_apiserver.kinds.kubelets import references
from dra_apiserver.storage import Resource, Store
from dra_apiserver.storage.collection import Collection
from dra_apiserver.storage.records import DELETED

POD, SECRET, CONFIG_MAP, ACCOUNT = "pod", "secret", "configmap", "serviceAccount"
VOLUME_CLAIM, VOLUME, ATTACHMENT = "pvc", "pv", "volumeattachment"
RESOURCE_CLAIM, SLICE = "resourceclaim", "resourceslice"

_MIRROR = "kubernetes.io/config.mirror"
_AT_ONCE = 1000


class Vertex(NamedTuple):
    """A kind of object, its namespace ("" for none) and its name."""

    kind: str
    namespace: str
    name: str


class Edge(NamedTuple):
    """An object from which another one can be reached: a node, or an object that leads to one."""

    source: Vertex
    target: Vertex | str


_Edges = Callable[[JsonObject], Iterator[Edge]]


class Graph:
    """Edges that follow pods, volumes, attachments and slices. Safe to query from other threads."""

    def __init__(self, store: Store) -> None:
        self._lock = threading.Lock()
        self._targets: dict[Vertex, Counter[Vertex | str]] = {}
        self._followed = [
            _Followed(store.collection(resource), edges, self._targets) for resource, edges in _EDGES.items()
        ]

    def is_related(self, node: str, kind: str, namespace: str, name: str) -> bool:
        """True if the object is related to the node."""
        with self._lock:
            for followed in self._followed:
                followed.catch_up()
            return self._leads(Vertex(kind, namespace, name), node)

    def _leads(self, vertex: Vertex, node: str) -> bool:
        targets = self._targets.get(vertex, ())
        return node in targets or any(
            self._leads(target, node) for target in targets if isinstance(target, Vertex)
        )


class _Followed:
    """The edges of one collection's objects."""

    def __init__(
        self, collection: Collection, edges: _Edges, targets: dict[Vertex, Counter[Vertex | str]]
    ) -> None:
        self._collection = collection
        self._edges = edges
        self._targets = targets
        self._known: dict[str, set[Edge]] = {}
        self._revision = -1

    def catch_up(self) -> None:
        collection = self._collection
        while self._revision != collection.revision:
            position = collection.position_after(self._revision) if self._revision >= 0 else None
            events = collection.events(position, _AT_ONCE) if position is not None else None
            if not events:
                # The first call, or the collection no longer has all changes since the last one.
                self._read_all()
                return
            for event in events:
                gone = event.type == DELETED
                self._set(event.key, set() if gone else set(self._edges(event.record.object())))
            self._revision = events[-1].revision

    def _read_all(self) -> None:
        collection = self._collection
        for key in [*self._known]:
            self._set(key, set())
        for key, record in [*collection.records.items()]:
            self._set(key, set(self._edges(record.object())))
        self._revision = collection.revision

    def _set(self, key: str, edges: set[Edge]) -> None:
        known = self._known.get(key, set())
        if edges == known:
            return
        for source, target in known - edges:
            counter = self._targets[source]
            counter[target] -= 1
            if not counter[target]:
                del counter[target]
            if not counter:
                del self._targets[source]
        for source, target in edges - known:
            self._targets.setdefault(source, Counter())[target] += 1
        if edges:
            self._known[key] = edges
        else:
            del self._known[key]


def _of_pod(pod: JsonObject) -> Iterator[Edge]:
    meta, spec = pod["metadata"], pod["spec"]
    node, namespace = spec.get("nodeName"), meta["namespace"]
    if not node:
        return
    yield Edge(Vertex(POD, namespace, meta["name"]), node)
    # Nodes create mirror pods, which must not give them access to other objects.
    if _MIRROR in (meta.get("annotations") or {}):
        return
    account = spec.get("serviceAccountName")
    names = (
        (ACCOUNT, [account] if account else ()),
        (SECRET, references.secrets(pod)),
        (CONFIG_MAP, references.config_maps(pod)),
        (VOLUME_CLAIM, references.volume_claims(pod)),
        (RESOURCE_CLAIM, references.resource_claims(pod)),
    )
    for kind, found in names:
        for name in found:
            yield Edge(Vertex(kind, namespace, name), node)


def _of_volume(volume: JsonObject) -> Iterator[Edge]:
    claim = volume["spec"].get("claimRef")
    if claim is None:
        return
    own = Vertex(VOLUME, "", volume["metadata"]["name"])
    yield Edge(own, Vertex(VOLUME_CLAIM, claim.get("namespace") or "", claim.get("name") or ""))
    for namespace, name in references.volume_secrets(volume):
        yield Edge(Vertex(SECRET, namespace, name), own)


def _of_attachment(attachment: JsonObject) -> Iterator[Edge]:
    if attachment["spec"].get("nodeName"):
        yield Edge(Vertex(ATTACHMENT, "", attachment["metadata"]["name"]), attachment["spec"]["nodeName"])


def _of_slice(slice_: JsonObject) -> Iterator[Edge]:
    if slice_["spec"].get("nodeName"):
        yield Edge(Vertex(SLICE, "", slice_["metadata"]["name"]), slice_["spec"]["nodeName"])


_EDGES: dict[Resource, _Edges] = {
    ("", "pods"): _of_pod,
    ("", "persistentvolumes"): _of_volume,
    ("storage.k8s.io", "volumeattachments"): _of_attachment,
    ("resource.k8s.io", "resourceslices"): _of_slice,
}
