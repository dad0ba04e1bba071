"""The subject of a check: manifests, a dump or a running cluster, with the current version and feature gates."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from dra_kube.access import ChosenCluster
from dra_kube.manifests import Manifest, load
from dra_shared.api.resources import DAEMON_SETS, WORKLOADS
from dra_shared.errors import UserError
from dra_shared.features import read
from dra_shared.jsontypes import JsonObject
from dra_shared.serviceversions import lab_gates
from dra_shared.version import DEFAULT, VERSIONS, Version, release

from dra_worlds.documents import Document
from dra_worlds.live import list_objects
from dra_worlds.reading import from_source
from dra_worlds.running import newest_of, read_version_and_gates

# The suffix of the version of dralab's API server.
_OURS = "+dralab"


@dataclass
class Subject:
    """Everything that is checked. ``manifests`` and ``documents`` are objects; manifests have their line numbers.

    ``gates`` are the gates that differ from the version's defaults or that the caller set. ``own`` are those
    of them that ``dralab up`` sets in each version that has them. ``problems`` are messages about files and
    objects that could not be read. ``gates_reported`` is True if a running cluster has reported all of its
    gates.
    """

    manifests: list[Manifest] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    version: Version = DEFAULT
    gates: dict[str, bool] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    problems: list[str] = field(default_factory=list)
    gates_reported: bool = False

    def objects(self) -> Iterable[tuple[JsonObject, str]]:
        """Yield each object with its place, which is empty for objects of a cluster."""
        for manifest in self.manifests:
            yield manifest, manifest.where
        for document in self.documents:
            value = orjson.loads(bytes(document.data))
            where = "" if document.where.startswith("http") else document.where
            yield {"apiVersion": document.api_version, "kind": document.kind, **value}, where


@dataclass(frozen=True)
class Named:
    """The sources to check, and the known version and gates of their cluster.

    ``source`` is a dump. ``cluster`` is a running cluster whose objects are checked.
    """

    files: Sequence[str] = ()
    source: str | None = None
    cluster: ChosenCluster | None = None
    kubernetes_version: str = ""
    feature_gates: str = ""
    recursive: bool = False


def subject(named: Named, against: Version) -> Subject:
    """Read the given sources. ``against`` is the other version.

    Raises:
        UserError: a source cannot be read, or a gate or version is unknown.
    """
    found = Subject()
    if named.files:
        found.manifests = load(list(named.files), recursive=named.recursive)
    live = ""
    if named.source is not None:
        found.documents = list(from_source(named.source, found.problems))
        if not found.documents:
            raise UserError(f"no objects of a cluster in {named.source}{_hint(named.source, found.problems)}")
    elif named.cluster is not None:
        live, found.gates = asyncio.run(_cluster(named.cluster, found))
        found.gates_reported = bool(found.gates)
    found.version = _version(named.kubernetes_version or live, found.documents, against)
    try:
        found.gates |= read(named.feature_gates, found.version)
    except ValueError as error:
        raise UserError(str(error), 2) from error
    defaults = release(found.version).gates
    wanted = read(named.feature_gates, found.version)
    found.gates = {
        name: on
        for name, on in found.gates.items()
        if name in wanted or (name in defaults and defaults[name].default != on)
    }
    if live.endswith(_OURS):
        found.own = frozenset(
            name
            for name, on in lab_gates(found.version).items()
            if found.gates.get(name) == on and name not in wanted
        )
    return found


def _hint(source: str, problems: list[str]) -> str:
    """Return a reason why a source has no objects: it is a cluster's own directory, or it cannot be read."""
    kubeconfig = Path(source) / "kubeconfig"
    if kubeconfig.is_file():
        return f": to check the running cluster, give its kubeconfig, {kubeconfig}"
    return f": {problems[0]}" if problems else ""


async def _cluster(cluster: ChosenCluster, found: Subject) -> tuple[str, dict[str, bool]]:
    """Return the version and the gates of a running cluster, and append its objects to ``found``."""
    async with cluster.client("dralab-check") as client:
        version, gates = await read_version_and_gates(client)
        more = (DAEMON_SETS, WORKLOADS)
        for _, documents in await list_objects(client, found.problems, more=more):
            found.documents += documents
    if not gates:
        found.problems.append(
            "its feature gates are not known: /metrics names none; name those that are set with --feature-gates"
        )
    return version, gates


def _version(text: str, documents: Iterable[Document], against: Version) -> Version:
    """Return the given version, or else that of the newest kubelet among the objects, or else a guess.

    The guess is the default version, or the version before it if the default version is the other one.
    """
    if text:
        try:
            return Version.parse(text.partition("-")[0].partition("+")[0])
        except ValueError as error:
            raise UserError(str(error), 2) from error
    newest = newest_of(_kubelet(document) for document in documents if document.kind == "Node")
    guess = VERSIONS[VERSIONS.index(DEFAULT) - 1] if against == DEFAULT else DEFAULT
    return next((version for version in VERSIONS if str(version) == newest), guess)


def _kubelet(node: Document) -> str:
    status = orjson.loads(bytes(node.data)).get("status") or {}
    return str((status.get("nodeInfo") or {}).get("kubeletVersion") or "")
