"""Worlds: a cluster's objects as a value, with questions to the scheduler about them.

A world is immutable. A variant shares all equal objects with the world that it was made from. All variants
use one scheduler, which applies only their differences::

    world = World.load("dump.tar.gz")
    world.fit("pod.yaml", count=100).fits
    [world.with_nodes(n, gpus="8xH100-SXM5-80GB").fit("pod.yaml", most=True).fits for n in range(100)]
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import orjson
from dra_kube.access import ChosenCluster, current_kubeconfig
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.explain.free import Free, free
from dra_scheduler.explain.report import PodReport
from dra_scheduler.explain.reported import as_reported
from dra_scheduler.explain.text import render
from dra_scheduler.plan.change import Comparison
from dra_scheduler.plan.engine import Engine
from dra_scheduler.plan.errors import PlanError
from dra_scheduler.plan.fit import Fit, Wanted
from dra_scheduler.plan.manifests import Manifests as Found
from dra_scheduler.plan.manifests import Typed
from dra_scheduler.plan.moves import Moves
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.packing.answer import Packing
from dra_scheduler.plan.planner import Planner, unknown_kinds_line, without_nodes
from dra_scheduler.plan.purchase.answer import Purchase
from dra_scheduler.plan.purchase.buyer import NodeType
from dra_scheduler.plan.questions import change, fit, moves, nodes, pack, replay, sweep
from dra_scheduler.plan.questions.catalog import QUESTIONS
from dra_scheduler.plan.questions.change import ChangeRequest
from dra_scheduler.plan.questions.question import Answer, Question, Recording, Request
from dra_scheduler.plan.questions.sweep import SweepFile, SweepRequest
from dra_scheduler.plan.questions.taint import QUESTION as TAINT
from dra_scheduler.plan.questions.taint import parse_taint
from dra_scheduler.plan.replaying.answer import Course
from dra_scheduler.plan.report.page import Inputs, write_report
from dra_scheduler.plan.setup import Setup
from dra_scheduler.plan.sweeping.answer import Sweep
from dra_scheduler.plan.sweeping.trials import Trials
from dra_scheduler.plan.tables import table
from dra_scheduler.plan.wanted import of
from dra_shared.api.resources import PODS
from dra_shared.errors import UserError

from dra_worlds.catalog import catalog as read_catalog
from dra_worlds.describe import describe_world
from dra_worlds.documents import Document, documents
from dra_worlds.files import texts
from dra_worlds.reading import manifests as read_manifests
from dra_worlds.reading import read
from dra_worlds.running import UNKNOWN, Running, of_objects
from dra_worlds.sources import from_cluster
from dra_worlds.sweeping.run import run_sweep
from dra_worlds.timeline import timeline
from dra_worlds.working import Settings

_T = TypeVar("_T")
Manifests = str | Path | dict[str, Any] | Iterable[dict[str, Any]]


class WorldError(ValueError):
    """The input cannot be read or does not exist. The message says which."""


@dataclass(frozen=True)
class Explanation:
    """The reason why a pod has its node, or none. ``report`` has the fields, ``str()`` the text of ``explain``."""

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
        """Read the world of a dump: a file, folder or archive of YAML or JSON.

        ``seed`` decides between nodes with equal scores. ``config`` is the scheduler's configuration; the
        default has the version of the newest kubelet.

        Raises:
            WorldError: it cannot be read.
        """
        problems: list[str] = []
        try:
            objects = read(str(path), problems)
        except UserError as error:
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
        """Read the world of a running cluster, which is only listed. The default ``path`` is kubectl's.

        Raises:
            WorldError: it may not be listed, or the kubeconfig cannot be used.
        """
        problems: list[str] = []
        cluster = ChosenCluster(kubeconfig=Path(path) if path else current_kubeconfig(), context=context)
        try:
            objects, running = _run(from_cluster(cluster, problems))
        except UserError as error:
            raise WorldError(str(error)) from error
        return cls(objects, problems, engine=_engine(seed, config, running))

    @classmethod
    def describe(cls, nodes: int, gpus: str, *, seed: int = 0) -> "World":
        """Return a world of equal nodes with these GPUs, such as ``8xH100-SXM5-80GB``.

        Raises:
            WorldError: the GPUs are malformed.
        """
        return cls(_describe(nodes, gpus, "node-"), engine=_engine(seed, None))

    # Deprecated: the name in 0.1, kept for one release.
    described = describe

    @property
    def objects(self) -> Objects:
        """The typed objects, by resource and key."""
        return self._objects

    @property
    def problems(self) -> list[str]:
        """Return what could not be read, and what makes answers uncertain because it is missing."""
        return list(self._planner.uncertain())

    def with_nodes(self, nodes: int | Manifests, gpus: str = "", *, prefix: str = "more-") -> "World":
        """Return this world with more nodes: ``nodes`` with these GPUs, or Nodes and ResourceSlices as manifests.

        Raises:
            WorldError: the nodes cannot be created or read.
        """
        if isinstance(nodes, int):
            more = _describe(nodes, gpus, prefix) if gpus else Objects()
            found: list[Typed] = [(resource, obj) for resource, each in more for obj in each.values()]
            return self._variant(self._objects.with_objects(found))
        return self.with_objects(nodes)

    def without_nodes(self, *names: str) -> "World":
        """Return this world without these nodes, their slices and their pods.

        Raises:
            WorldError: there is no such node.
        """
        return self._variant(_raise_world_errors(lambda: without_nodes(self._objects, names)))

    def with_objects(self, manifests: Manifests) -> "World":
        """Return this world with these objects, which replace those of the same names.

        Raises:
            WorldError: they cannot be read.
        """
        found = _read(manifests, self._objects)
        return self._variant(self._objects.with_objects(found.objects), found.left_out)

    def fit(
        self, pods: Manifests, count: int | None = None, *, most: bool = False, more: bool = False
    ) -> Fit:
        """Check whether the pods fit: as they are, ``count`` copies, or with ``most`` as many copies as possible.

        With ``more``, also count how many further copies would fit.

        Raises:
            WorldError: the pods cannot be read, or there are none.
        """
        return self._ask(fit.QUESTION, objects=pods, count=count, max=most, more=more)

    def drain(self, *nodes: str) -> Moves:
        """Find new nodes for the pods of drained nodes, and the pods that have none.

        Raises:
            WorldError: there is no such node.
        """
        return self._ask(moves.DRAIN, nodes=nodes)

    def remove(self, *nodes: str) -> Moves:
        """Predict what happens if the nodes vanish at once, with their devices. Raises as :meth:`drain`."""
        return self._ask(moves.REMOVE, nodes=nodes)

    def upgrade(self, *nodes: str) -> Moves:
        """Find an order in which the nodes can be drained one by one; all nodes by default. Raises as :meth:`drain`."""
        return self._ask(moves.UPGRADE, nodes=nodes)

    def taint(self, target: str, taint: str) -> Moves:
        """Return which pods leave ``node/NAME`` or ``device/DRIVER/POOL/DEVICE`` with the taint ``KEY[=VALUE]:EFFECT``.

        Raises:
            WorldError: there is no such node or device, or the taint is malformed.
        """
        request = _raise_world_errors(lambda: parse_taint(target, taint))
        return self._ask(TAINT, **msgspec.structs.asdict(request))

    def change(self, edits: "Manifests | World") -> Comparison:
        """Compare the placement of the pods before and after these objects replace those of the same names.

        A variant of this world, such as the result of :meth:`without_nodes`, is also accepted.

        Raises:
            WorldError: the objects cannot be read.
        """
        return self._ask(change.QUESTION, objects=edits)

    def nodes(
        self,
        catalog: str | Path,
        pods: Manifests | None = None,
        count: int | None = None,
        *,
        seconds: float = 60.0,
    ) -> Purchase:
        """Find the cheapest nodes of a catalog on which all pending pods and these pods fit.

        Raises:
            WorldError: the catalog or the pods cannot be read.
        """
        objects = () if pods is None else pods
        return self._ask(nodes.QUESTION, types=catalog, objects=objects, count=count, seconds=seconds)

    def pack(
        self, wanted: Manifests | None = None, count: int | None = None, *, seconds: float = 60.0
    ) -> Packing:
        """Find stranded devices, the free capacity of nodes, and the fewest moves that make room for wanted pods.

        Raises:
            WorldError: the pods cannot be read.
        """
        objects = () if wanted is None else wanted
        return self._ask(pack.QUESTION, objects=objects, count=count, seconds=seconds)

    def replay(
        self, times: str | Path, shapes: Manifests | None = None, *, starved_after: float = 600.0
    ) -> Course:
        """Replay a timeline in this world: a CSV, a dump or a recorded watch. Compare it with a variant's.

        Raises:
            WorldError: it cannot be read.
        """
        objects = () if shapes is None else shapes
        answer = self._ask(replay.QUESTION, arrivals=times, objects=objects, starved_after=starved_after)
        return answer.courses[0]

    def sweep(self, path: str | Path, *, workers: int = 1, starved_after: float = 600.0) -> Sweep:
        """Try the variants of a sweep's file on this world, in so many processes.

        With one worker they run in this process.

        Raises:
            WorldError: the file cannot be read.
        """
        file = SweepFile(Path(path), workers)
        return self._ask(sweep.QUESTION, variants=file, starved_after=starved_after)

    def ask(self, question: str, **fields: Any) -> Any:
        """Return the answer of any question of ``dralab plan``. ``fields`` are those of its request.

        Objects are manifests as for the other methods, ``types`` is a catalog, and ``arrivals`` a timeline.

        Raises:
            WorldError: the question or field does not exist, or this world cannot answer the question.
        """
        return self._ask(_find_question(question), **fields)

    def report(self, question: str, *, source: str = "a world in Python", **fields: Any) -> str:
        """Return the answer of a question as an HTML page. Arguments and errors are those of :meth:`ask`."""
        asked = _find_question(question)
        request = _build_request(asked, fields)
        door = _WorldDoor(self)

        def write() -> str:
            inputs = Inputs(source, datetime.now(UTC))
            return write_report(asked, request, asked.ask(door, request), door, inputs)

        return _raise_world_errors(write)

    def _ask(self, question: Question[Request, Answer], **fields: Any) -> Answer:
        request = _build_request(question, fields)
        return _raise_world_errors(lambda: question.ask(_WorldDoor(self), request))

    @property
    def _planner(self) -> Planner:
        return Planner(self._objects, self._engine, problems=self._read_problems)

    def explain(self, pod: str, namespace: str = "default", *, most_nodes: int = 20) -> Explanation:
        """Explain why a pod of the world has its node, or none.

        Raises:
            WorldError: there is no such pod.
        """
        space, _, name = pod.rpartition("/")
        world = self._engine.at(self._objects)
        report = world.scheduler.explainer.pod(space or namespace, name, most_nodes=most_nodes)
        if report is None:
            raise WorldError(f'there is no pod "{space or namespace}/{name}"')
        return Explanation(world.with_refusal(as_reported(report, self._objects.of(PODS))))

    def free(self) -> Free:
        """Return the free and the used devices by class, node and pool, as ``dralab free`` does."""
        world = self._engine.at(self._objects)
        scheduler = world.scheduler
        return world.run(free(scheduler.manager, scheduler.cache.node_objects()))

    def __iter__(self) -> Iterator[Typed]:
        return ((resource, obj) for resource, each in self._objects for obj in each.values())

    def __len__(self) -> int:
        return len(self._objects)

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(each)} {resource.plural}" for resource, each in self._objects)
        return f"<World: {counts or 'empty'}>"

    def _repr_html_(self) -> str:
        return table("World", ("resource", "objects"), [(r.plural, len(each)) for r, each in self._objects])

    def _variant(self, objects: Objects, left_out: Sequence[str] = ()) -> "World":
        problems = (*self._read_problems, *((unknown_kinds_line(left_out),) if left_out else ()))
        return World(objects, problems, engine=self._engine)


class _WorldDoor:
    """Reads requests that contain manifests as Python objects. Variants share the world's scheduler."""

    def __init__(self, world: World) -> None:
        self._planner = world._planner

    @property
    def planner(self) -> Planner:
        return self._planner

    def pods(self, given: Any, count: int | None = None) -> Wanted:
        return of(_read(given, self._planner.objects, again=True), self._planner.objects)

    def types(self, given: Any) -> Sequence[NodeType]:
        return read_catalog(Path(given))

    def apply_change(self, change: ChangeRequest) -> tuple[Planner, Sequence[str]]:
        edits: Any = change.objects
        if isinstance(edits, World):
            return edits._planner, ()
        found = _read(edits, self._planner.objects)
        return self._planner.with_changes(self._planner.objects.with_objects(found.objects)), found.left_out

    def apply_changes(self, given: Any) -> tuple[Sequence[tuple[str, Planner]], Sequence[str]]:
        raise WorldError("a world replays no changes: replay the timeline in each variant")

    def timeline(self, arrivals: Any, objects: Any) -> Recording:
        shapes = self.pods(objects) if objects else None
        return Recording(timeline(str(arrivals), self._planner.objects, shapes)[0])

    def trials(self, asked: SweepRequest) -> Trials:
        given: Any = asked.variants
        file = given if isinstance(given, SweepFile) else SweepFile(Path(given), workers=1)
        setup = self._planner.setup
        if setup.load is not None:
            raise WorldError(
                "a sweep does not know the world's SchedulerConfig: name a file with vary.config"
            )
        gates = ",".join(f"{name}={str(on).lower()}" for name, on in setup.gates.items())
        settings = Settings(gates, str(setup.version), seed=setup.seed)
        return run_sweep(file, asked.starved_after, self._planner, settings)

    def seconds(self, seconds: float) -> float:
        return seconds


def _find_question(name: str) -> Question[Any, Any]:
    if name not in QUESTIONS:
        raise WorldError(f"there is no question {name!r}: choose {', '.join(QUESTIONS)}")
    return QUESTIONS[name]


def _build_request(question: Question[Request, Answer], fields: dict[str, Any]) -> Request:
    try:
        return question.request(**fields)
    except TypeError as error:
        raise WorldError(f"{question.name}: {error}") from error


def _engine(seed: int, config: SchedulerConfig | None, running: Running = UNKNOWN) -> Engine:
    setup = Settings(seed=seed, cluster=running).setup()
    return Engine(setup if config is None else Setup.of(config, seed=seed))


def _raise_world_errors(ask: Callable[[], _T]) -> _T:
    try:
        return ask()
    except (UserError, PlanError) as error:
        raise WorldError(str(error)) from error


def _describe(nodes: int, gpus: str, prefix: str) -> Objects:
    try:
        return describe_world(nodes, gpus, prefix=prefix)
    except UserError as error:
        raise WorldError(str(error)) from error


def _read(given: Manifests, objects: Objects, *, again: bool = False) -> Found:
    problems: list[str] = []
    found = read_manifests(_documents(given, problems), problems, objects, again=again)
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
        except UserError as error:
            raise WorldError(str(error)) from error
        return
    for each in given:
        yield from documents("the manifest", orjson.dumps(each), problems)


def _run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run the coroutine; in another thread if this one already runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
