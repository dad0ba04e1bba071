"""Run a sweep: read its file, skip recorded trials, and try the others on the chosen workers."""

from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

from dra_scheduler.plan.planner import Planner
from dra_scheduler.plan.questions.sweep import SweepFile
from dra_scheduler.plan.sweeping.trials import Outcome, Trials
from dra_shared.errors import UserError

from dra_worlds.sweeping.job import Job
from dra_worlds.sweeping.record import Record
from dra_worlds.sweeping.variants import Variant
from dra_worlds.sweeping.workers import Lane, connect_dask, count_cores, run_lanes, start_processes
from dra_worlds.working import Settings


def run_sweep(file: SweepFile, starved_after: float, planner: Planner, settings: Settings) -> Trials:
    """Return the trials of a sweep's file in the planner's world.

    Raises:
        UserError: the file, the record or the engine cannot be used.
    """
    problems = planner.uncertain() if len(planner.objects) else ()
    job = Job.read(file.path, planner.objects, settings, problems, starved_after)
    record = Record(file.resume, job.fingerprint() if file.resume is not None else "")
    known = {(each.variant, each.seed): each for each in record.read()}
    trials = [(variant, seed) for variant in job.variants for seed in job.seeds]
    left = [(variant, seed) for variant, seed in trials if (variant.name, seed) not in known]

    def outcomes() -> Iterator[Outcome]:
        done = len(trials) - len(left)
        yield from (known[variant.name, seed] for variant, seed in trials if (variant.name, seed) in known)
        for outcome in _run(job, file, left, planner.goes_on):
            record.add(outcome)
            done += 1
            planner.report_progress(done)
            yield outcome

    return Trials(len(trials), outcomes(), problems=job.draws.problems)


def _run(
    job: Job, file: SweepFile, trials: Sequence[tuple[Variant, int]], goes_on: Callable[[], bool]
) -> Iterator[Outcome]:
    workers = min(file.workers or count_cores(), len(trials))
    if not trials:
        return
    if file.engine:
        yield from _run_lanes(*connect_dask(_address(file.engine), job), trials, goes_on)
    elif workers > 1:
        yield from _run_lanes(*start_processes(job, workers), trials, goes_on)
    else:
        try:
            for variant, seed in trials:
                if not goes_on():
                    return
                yield job.run(variant, seed, goes_on)
        finally:
            job.close()


def _run_lanes(
    lanes: Sequence[Lane],
    stop: Callable[[], None],
    trials: Sequence[tuple[Variant, int]],
    goes_on: Callable[[], bool],
) -> Iterator[Outcome]:
    try:
        yield from run_lanes(lanes, trials, goes_on)
    finally:
        # Set the stop sign first: closing waits for the trials that run, and these end early if it is set.
        stop()
        for lane in lanes:
            lane.close()


def _address(engine: str) -> str:
    parts = urlsplit(engine)
    if parts.scheme != "dask" or not parts.hostname or not parts.port:
        raise UserError(f"--engine {engine}: only dask://HOST:PORT is known", 2)
    return f"tcp://{parts.netloc}"
