"""Workers of a sweep: processes of this machine, or those of a Dask cluster.

Dask, not Ray: its client is a :class:`concurrent.futures.Executor` as local processes are, it is written in Python
alone, and ``dask scheduler`` and ``dask worker`` are all that its cluster needs.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

from dra_scheduler.plan.sweeping.trials import Outcome
from dra_shared import __version__
from dra_shared.errors import UserError

from dra_worlds.sweeping.job import Job
from dra_worlds.sweeping.variants import Variant

_DIED = "its worker died"
# How often an interruption is looked for, in seconds.
_EVERY = 0.2

# The job and the stop sign of a worker's process.
_job: Job | None = None
_stop: Any = None


class Lane(Protocol):
    """Runs one trial at a time."""

    def submit(self, variant: Variant, seed: int) -> "Future[Outcome]":
        """Start a trial."""
        ...

    def renew(self) -> None:
        """Replace a worker that died."""
        ...

    def close(self) -> None:
        """End the work."""
        ...


def run_lanes(
    lanes: Sequence[Lane], trials: Sequence[tuple[Variant, int]], goes_on: Callable[[], bool]
) -> Iterator[Outcome]:
    """Yield the outcomes as they end. A worker that dies costs its trial, and is replaced."""
    left = _Queue(trials)
    working: dict[Future[Outcome], tuple[Lane, Variant, int]] = {}
    idle: list[tuple[Lane, str]] = [(lane, "") for lane in lanes]
    while (idle and left) or working:
        while idle and left:
            lane, last = idle.pop()
            variant, seed = left.take(last)
            working[lane.submit(variant, seed)] = lane, variant, seed
        done, _ = wait(working, timeout=_EVERY, return_when=FIRST_COMPLETED)
        for future in done:
            lane, variant, seed = working.pop(future)
            try:
                yield future.result()
            except BrokenProcessPool:
                lane.renew()
                yield _fail(variant, seed, _DIED)
            except Exception as error:
                yield _fail(variant, seed, f"{type(error).__name__}: {error}")
            idle.append((lane, variant.name))
        if not goes_on():
            return


def _fail(variant: Variant, seed: int, message: str) -> Outcome:
    return Outcome(variant=variant.name, seed=seed, settings=variant.settings, message=message)


class _Queue:
    """Trials that wait. A worker keeps its variant, whose world it has, as long as that has seeds left."""

    def __init__(self, trials: Sequence[tuple[Variant, int]]) -> None:
        self._left: dict[str, list[tuple[Variant, int]]] = {}
        for variant, seed in trials:
            self._left.setdefault(variant.name, []).append((variant, seed))
        self._untouched = dict.fromkeys(self._left)

    def __bool__(self) -> bool:
        return bool(self._left)

    def take(self, last: str) -> tuple[Variant, int]:
        """Return the next trial: of the last variant, else of an untouched one, else of the one with most left."""
        name = last if last in self._left else next(iter(self._untouched), "")
        if not name:
            name = max(self._left, key=lambda each: len(self._left[each]))
        self._untouched.pop(name, None)
        trial = self._left[name].pop(0)
        if not self._left[name]:
            del self._left[name]
        return trial


class ProcessLane:
    """One process of this machine. If it dies, no other trial is affected, because it has an executor of its own."""

    def __init__(self, job: Job, stop: Any) -> None:
        self._job, self._stop = job, stop
        self._executor = self._start()

    def _start(self) -> Executor:
        # A fork of this process could inherit locks of its threads, for example in a notebook.
        return ProcessPoolExecutor(
            1, mp_context=_context(), initializer=_initialize, initargs=(self._job, self._stop)
        )

    def submit(self, variant: Variant, seed: int) -> "Future[Outcome]":
        """Start a trial."""
        return self._executor.submit(_run, variant, seed)

    def renew(self) -> None:
        """Replace the process that died."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._executor = self._start()

    def close(self) -> None:
        """End the process. Its trial ends early if the stop sign is set."""
        self._executor.shutdown(wait=True, cancel_futures=True)


def start_processes(job: Job, workers: int) -> tuple[list[Lane], Callable[[], None]]:
    """Return a lane for each process, and a function that ends their trials early."""
    stop = _context().Event()
    lanes: list[Lane] = [ProcessLane(job, stop) for _ in range(workers)]
    return lanes, stop.set


def count_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def _context() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _initialize(job: Job, stop: Any) -> None:
    global _job, _stop
    # Ctrl-C reaches every process of the terminal. The main process decides how the sweep ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _job, _stop = job, stop


def _run(variant: Variant, seed: int) -> Outcome:
    assert _job is not None
    return _job.run(variant, seed, lambda: not _stop.is_set())


class DaskLane:
    """A place of a Dask cluster's worker. Dask itself replaces workers."""

    def __init__(self, executor: Executor, job: Any) -> None:
        self._executor, self._job = executor, job

    def submit(self, variant: Variant, seed: int) -> "Future[Outcome]":
        """Start a trial."""
        return self._executor.submit(run_remote, self._job, variant, seed)

    def renew(self) -> None:
        """No-op: the cluster starts workers."""

    def close(self) -> None:
        """Cancel what has not begun."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def connect_dask(address: str, job: Job) -> tuple[list[Lane], Callable[[], None]]:
    """Return a lane for each thread of the cluster's workers, and a function that disconnects.

    Raises:
        UserError: Dask is not installed, or the cluster cannot be reached.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise UserError("--engine dask:// needs Dask: pip install 'dralab[dask]'") from error
    try:
        client = Client(address, timeout="10s", set_as_default=False)
    except OSError as error:
        raise UserError(f"--engine dask://{address}: no Dask scheduler answers: {error}") from error
    places = sum(client.nthreads().values())
    if not places:
        client.close()
        raise UserError(f"--engine dask://{address}: the cluster has no workers")
    (scattered,) = client.scatter([job], broadcast=True, hash=False)
    executor = client.get_executor(pure=False)
    return [DaskLane(executor, scattered) for _ in range(places)], client.close


def run_remote(job: Job, variant: Variant, seed: int) -> Outcome:
    """Run a trial on a worker of a cluster.

    Raises:
        RuntimeError: the worker has another version of dralab, which could decide otherwise.
    """
    if job.version != __version__:
        raise RuntimeError(f"the worker has dralab {__version__}, not {job.version}")
    return job.run(variant, seed)
