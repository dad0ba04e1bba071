"""Worlds: a cluster's objects as a value, and what the scheduler would do with them.

A world is immutable; a variant shares all that it has in common with the world that it was made of, and one scheduler
goes from variant to variant by their difference::

    world = World.load("dump.tar.gz")
    world.fit("pod.yaml", count=100).fits
    [world.with_nodes(n, gpus="8xH100-SXM5-80GB").fit("pod.yaml", most=True).fits for n in range(100)]
"""

import asyncio
import time
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import orjson
from dra_cli.access import ChosenCluster, current_kubeconfig
from dra_cli.errors import CommandError
from dra_cli.plan.catalog import catalog as read_catalog
from dra_cli.plan.describe import described
from dra_cli.plan.documents import Document, documents
from dra_cli.plan.files import texts
from dra_cli.plan.reading import manifests as read_manifests
from dra_cli.plan.reading import read
from dra_cli.plan.running import UNKNOWN, Running, of_objects
from dra_cli.plan.sources import from_cluster
from dra_cli.plan.timeline import timeline, without_pods
from dra_cli.plan.wanted import without_pods as no_pods
from dra_cli.plan.working import Settings
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.explain.report import PodReport
from dra_scheduler.explain.text import render
from dra_scheduler.plan.change import Comparison, compared, places
from dra_scheduler.plan.engine import Engine
from dra_scheduler.plan.fit import Fit, Fitter, Wanted
from dra_scheduler.plan.gaps import gaps, gate_gaps
from dra_scheduler.plan.manifests import Manifests as Found
from dra_scheduler.plan.manifests import Typed
from dra_scheduler.plan.moves import Mover, Moves
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.packing.answer import Packing
from dra_scheduler.plan.packing.freeing import Freer
from dra_scheduler.plan.packing.packer import Packer
from dra_scheduler.plan.purchase.answer import Purchase
from dra_scheduler.plan.purchase.buyer import Buyer
from dra_scheduler.plan.replaying.answer import Course
from dra_scheduler.plan.replaying.replayer import Replayer
from dra_scheduler.plan.simulation import Stopped
from dra_scheduler.plan.tables import table
from dra_scheduler.plan.wanted import of
from dra_shared.api.resources import NODES, PODS, RESOURCE_SLICES
from dra_shared.log import configure

_T = TypeVar("_T")
Manifests = str | Path | dict[str, Any] | Iterable[dict[str, Any]]


class WorldError(ValueError):
    """What was given cannot be read, or is not there; the message says what."""


@dataclass(frozen=True)
class Explanation:
    """Why a pod is where it is, or nowhere: ``report`` has the fields, ``str()`` the text of ``dralab explain``."""

    report: PodReport

    def __str__(self) -> str:
        return render(self.report)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class World:
    """The objects of a cluster. Not for several threads at a time: variants share one scheduler."""

    def __init__(
        self, objects: Objects | None = None, problems: Iterable[str] = (), *, engine: Engine | None = None
    ) -> None:
        self._objects = objects if objects is not None else Objects()
        self._read_problems = tuple(problems)
        self._engine = engine or Engine()

    @classmethod
    def load(cls, path: str | Path, *, seed: int = 0, config: SchedulerConfig | None = None) -> "World":
        """The world of a dump: a file, folder or archive of YAML or JSON.

        ``seed`` decides between nodes that are equally good; ``config`` is the scheduler's, else its
        version is that of the newest kubelet.

        Raises:
            WorldError: it cannot be read.
        """
        problems: list[str] = []
        try:
            objects = read(str(path), problems)
        except CommandError as error:
            raise WorldError(str(error)) from error
        return cls(objects, problems, engine=_engine(seed, config, of_objects(objects, problems)))

    @classmethod
    def from_kubeconfig(
        cls,
        path: str | Path | None = None,
        *,
        context: str | None = None,
        seed: int = 0,
        config: SchedulerConfig | None = None,
    ) -> "World":
        """The world of a running cluster, which is only listed; without ``path`` the one that kubectl would take.

        Raises:
            WorldError: it may not be listed, or the kubeconfig is of no use.
        """
        problems: list[str] = []
        cluster = ChosenCluster(kubeconfig=Path(path) if path else current_kubeconfig(), context=context)
        try:
            objects, running = _awaited(from_cluster(cluster, problems))
        except CommandError as error:
            raise WorldError(str(error)) from error
        return cls(objects, problems, engine=_engine(seed, config, running))

    @classmethod
    def described(cls, nodes: int, gpus: str, *, seed: int = 0) -> "World":
        """A world of equal nodes with these GPUs, such as ``8xH100-SXM5-80GB``.

        Raises:
            WorldError: the GPUs are described wrongly.
        """
        return cls(_described(nodes, gpus, "node-"), engine=_engine(seed, None))

    @property
    def objects(self) -> Objects:
        """The typed objects, by resource and key."""
        return self._objects

    @property
    def problems(self) -> list[str]:
        """What could not be read, and what is missing and makes answers uncertain."""
        engine = self._engine
        assumed = gate_gaps(self._objects.needed_gates(), engine.known_gates, engine.version)
        return [*self._read_problems, *gaps(self._objects), *assumed]

    def with_nodes(self, nodes: int | Manifests, gpus: str = "", *, prefix: str = "more-") -> "World":
        """The same with more nodes: so many with these GPUs, or Nodes and ResourceSlices as manifests.

        Raises:
            WorldError: they cannot be made or read.
        """
        if isinstance(nodes, int):
            more = _described(nodes, gpus, prefix) if gpus else Objects()
            found: list[Typed] = [(resource, obj) for resource, each in more for obj in each.values()]
            return self._variant(self._objects.with_objects(found))
        return self.with_objects(nodes)

    def without_nodes(self, *names: str) -> "World":
        """The same without these nodes, their slices and their pods."""
        gone = set(names)
        slices = [k for k, s in self._objects.of(RESOURCE_SLICES).items() if s.spec.node_name in gone]
        pods = [key for key, pod in self._objects.of(PODS).items() if pod.spec.node_name in gone]
        objects = self._objects.without(NODES, gone).without(RESOURCE_SLICES, slices).without(PODS, pods)
        return self._variant(objects)

    def with_objects(self, manifests: Manifests) -> "World":
        """The same with these objects, in place of those of the same names.

        Raises:
            WorldError: they cannot be read.
        """
        return self._variant(self._objects.with_objects(_found(manifests).objects))

    def fit(
        self, pods: Manifests, count: int | None = None, *, most: bool = False, more: bool = False
    ) -> Fit:
        """Whether the pods fit: as they are, ``count`` copies, or with ``most`` as many as do.

        ``more`` also counts how many further copies would.

        Raises:
            WorldError: they cannot be read, or there are none.
        """
        asked = self._wanted(pods)
        fitter = Fitter(self._engine.at(self._objects, asked), asked)
        return fitter.answer(count, most=most, more=more)

    def drain(self, *nodes: str) -> Moves:
        """Where the pods of the nodes go when they are drained, and which are stuck.

        Raises:
            WorldError: there is no such node.
        """
        return self._mover(nodes).drain(nodes)

    def remove(self, *nodes: str) -> Moves:
        """The same when the nodes are gone at once, with their devices; raises as :meth:`drain`."""
        return self._mover(nodes).remove(nodes)

    def upgrade(self, *nodes: str) -> Moves:
        """In which order the nodes (all, unless some are named) can be drained one by one; raises as :meth:`drain`."""
        chosen = nodes or tuple(self._objects.of(NODES))
        return self._mover(chosen).upgrade(chosen)

    def change(self, edits: "Manifests | World") -> Comparison:
        """What the same pods get before and after these objects take the place of those of the same names.

        A variant of this world, as :meth:`without_nodes` makes it, will do, too.

        Raises:
            WorldError: they cannot be read.
        """
        after = edits if isinstance(edits, World) else self.with_objects(edits)
        before = places(self._engine.at(self._objects))
        return compared(before, places(after._engine.at(after._objects)))

    def nodes(
        self,
        catalog: str | Path,
        pods: Manifests | None = None,
        count: int | None = None,
        *,
        seconds: float = 60.0,
    ) -> Purchase:
        """The cheapest nodes of a catalog on which all that waits fits, and these pods.

        Raises:
            WorldError: the catalog or the pods cannot be read.
        """
        try:
            types = read_catalog(Path(catalog))
        except CommandError as error:
            raise WorldError(str(error)) from error
        asked = Wanted(()) if pods is None else self._wanted(pods)
        end = time.monotonic() + seconds
        new = self._engine.new(self._objects, asked)
        buyer = Buyer(self._objects, asked, types, new, in_time=lambda: time.monotonic() < end)
        return buyer.answer(count)

    def pack(
        self, wanted: Manifests | None = None, count: int | None = None, *, seconds: float = 60.0
    ) -> Packing:
        """What is stranded, what nodes could still take, and the fewest moves that make room for wanted pods.

        Raises:
            WorldError: they cannot be read.
        """
        answer = Packer(self._engine.at(self._objects), self._objects).answer()
        if wanted is None:
            return answer
        asked = self._wanted(wanted)
        end = time.monotonic() + seconds

        def go_on() -> None:
            if time.monotonic() > end:
                raise Stopped

        freer = Freer(self._objects, asked, self._engine.new(self._objects, asked), go_on)
        return msgspec.structs.replace(answer, room=freer.answer(count)[0])

    def replay(
        self, times: str | Path, shapes: Manifests | None = None, *, starved_after: float = 600.0
    ) -> Course:
        """How a timeline goes in this world: a CSV, a dump or a recorded watch; compare it with a variant's.

        Raises:
            WorldError: it cannot be read.
        """
        try:
            known = self._wanted(shapes) if shapes is not None else None
            recorded, _ = timeline(str(times), self._objects, known)
        except CommandError as error:
            raise WorldError(str(error)) from error
        objects = without_pods(self._objects, recorded.arrivals)
        asked = Wanted([each.pod for each in recorded.arrivals], recorded.groups, recorded.others)
        world = self._engine.new(objects, asked)(lambda: True)
        world.load((resource, each.values()) for resource, each in objects)
        try:
            return Replayer(world, recorded).run("as it is", starved_after)
        finally:
            world.close()

    def _mover(self, nodes: Iterable[str]) -> Mover:
        for name in nodes:
            if name not in self._objects.of(NODES):
                raise WorldError(f'there is no node "{name}"')
        return Mover(self._engine.at(self._objects))

    def _wanted(self, pods: Manifests) -> Wanted:
        found = _found(pods)
        asked = of(found, self._objects)
        if not asked.pods:
            raise WorldError(no_pods(found))
        return asked

    def explain(self, pod: str, namespace: str = "default", *, most_nodes: int = 20) -> Explanation:
        """Why the pod of the world is where it is, or nowhere.

        Raises:
            WorldError: there is no such pod.
        """
        space, _, name = pod.rpartition("/")
        scheduler = self._engine.at(self._objects).scheduler
        report = scheduler.explainer.pod(space or namespace, name, most_nodes=most_nodes)
        if report is None:
            raise WorldError(f'there is no pod "{space or namespace}/{name}"')
        return Explanation(report)

    def __iter__(self) -> Iterator[Typed]:
        return ((resource, obj) for resource, each in self._objects for obj in each.values())

    def __len__(self) -> int:
        return len(self._objects)

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(each)} {resource.plural}" for resource, each in self._objects)
        return f"<World: {counts or 'empty'}>"

    def _repr_html_(self) -> str:
        return table("World", ("resource", "objects"), [(r.plural, len(each)) for r, each in self._objects])

    def _variant(self, objects: Objects) -> "World":
        return World(objects, self._read_problems, engine=self._engine)


def _engine(seed: int, config: SchedulerConfig | None, running: Running = UNKNOWN) -> Engine:
    configure("plan", "error", final=False)
    version, gates = Settings(cluster=running).features()
    return Engine(config, seed=seed, version=version, gates=gates)


def _described(nodes: int, gpus: str, prefix: str) -> Objects:
    try:
        return described(nodes, gpus, prefix=prefix)
    except CommandError as error:
        raise WorldError(str(error)) from error


def _found(given: Manifests) -> Found:
    problems: list[str] = []
    found = read_manifests(_documents(given, problems), problems)
    if problems:
        raise WorldError(problems[0])
    return found


def _documents(given: Manifests, problems: list[str]) -> Iterator[Document]:
    if isinstance(given, dict):
        given = [given]
    if isinstance(given, str | Path):
        text = str(given)
        if "\n" in text or text.lstrip().startswith("{"):
            yield from documents("the manifest", text.encode(), problems)
            return
        try:
            for where, content in texts(text, problems):
                yield from documents(where, content, problems)
        except CommandError as error:
            raise WorldError(str(error)) from error
        return
    for each in given:
        yield from documents("the manifest", orjson.dumps(each), problems)


def _awaited(work: Coroutine[Any, Any, _T]) -> _T:
    """Run it, in a thread where an event loop runs in this one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
