"""``dralab plan sweep``: variants, arrivals, workers, records, and the answer."""

import dataclasses
import json
import pickle
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import yaml
from dra_cli.commandline import run
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.planner import Planner
from dra_scheduler.plan.questions.sweep import SweepFile
from dra_scheduler.plan.replaying.answer import Course, Waits
from dra_scheduler.plan.routes import ask
from dra_scheduler.plan.sweeping.summary import estimate, summarize
from dra_scheduler.plan.sweeping.trials import Outcome
from dra_shared.errors import UserError
from dra_worlds.sweeping.draws import Draws
from dra_worlds.sweeping.job import Job
from dra_worlds.sweeping.run import run_sweep
from dra_worlds.sweeping.variants import Variant, read_variants
from dra_worlds.sweeping.workers import run_lanes, run_remote
from dra_worlds.working import Settings
from dralab import World

from tests.support.sampling import sample

_POOLS = [
    {"name": "large", "count": 1, "gpus": "8xH100-SXM5-80GB", "price": 100},
    {"name": "small", "count": 1, "gpus": "4xT4", "price": 8},
]
_ARRIVALS = {
    "hours": 1,
    "pods": [
        {"shape": "4xgpu.nvidia.com+cpu=8", "perHour": 8, "minutes": 40},
        {"shape": "1xgpu.nvidia.com", "perHour": 8, "minutes": 20},
    ],
}


def _write(folder: Path, **parts: Any) -> Path:
    path = folder / "sweep.yaml"
    vary = {"pools.large.count": [0, 1, 2], "pools.small.count": [0, 1]}
    document = {"pools": _POOLS, "vary": vary, "arrivals": _ARRIVALS, "seeds": 2} | parts
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def _job(path: Path) -> Job:
    return Job.read(path, Objects(), Settings(), (), 600.0)


def _ask(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, Any]:
    code = run("plan", [*map(str, words), "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


# Variants


def test_the_variants_of_a_sweep_are_all_combinations_of_its_settings(tmp_path: Path) -> None:
    path = _write(
        tmp_path, vary={"pools.large.count": [1, 2], "featureGates": ["", "DRAPartitionableDevices=false"]}
    )
    names = [variant.name for variant in _job(path).variants]
    assert names == [
        "large.count=1 featureGates=none",
        "large.count=1 featureGates=DRAPartitionableDevices=false",
        "large.count=2 featureGates=none",
        "large.count=2 featureGates=DRAPartitionableDevices=false",
    ]


def test_settings_that_a_sweep_cannot_vary_are_rejected(tmp_path: Path) -> None:
    for vary, message in (
        ({"pools.huge.count": [1]}, "vary.pools.huge.count: unknown: choose pools.POOL.FIELD"),
        ({"seed": [1]}, "vary.seed: unknown"),
        ({"config": "a.yaml"}, "vary.config: must be a list"),
        ({"pools.large.count": [1, 1]}, "two variants are equal"),
    ):
        with pytest.raises(UserError, match=message):
            read_variants({"pools": _POOLS, "vary": vary}, "sweep.yaml")


def test_a_sweep_varies_layouts_gates_versions_and_changes(tmp_path: Path) -> None:
    """Three pods want a partition, and two a whole GPU. A layout has one or the other."""
    (tmp_path / "t.csv").write_text(
        "start,end,shape\n" + "0,60,1xmig.nvidia.com\n" * 3 + "0,60,1xgpu.nvidia.com\n" * 2
    )
    path = _write(
        tmp_path,
        pools=[{"name": "a", "gpus": "1xA100-SXM4-40GB:whole"}],
        vary={
            "pools.a.gpus": ["1xA100-SXM4-40GB:whole", "1xA100-SXM4-40GB:2g.10gb+2g.10gb+2g.10gb"],
            "change": [{"name": "as it is"}, {"name": "one more", "nodes": {"count": 1, "gpus": "1xT4"}}],
        },
        arrivals={"recorded": "t.csv", "resample": False},
        seeds=1,
    )
    job = _job(path)
    placed = [job.run(variant, 0).course for variant in job.variants]
    # The T4 takes another pod, which waits for the first one to go.
    assert [(c.placed, c.waits.longest) for c in placed if c is not None] == [
        (2, 60.0),
        (2, 0.0),
        (3, 0.0),
        (5, 60.0),
    ]


def test_an_impossible_variant_does_not_affect_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _write(tmp_path, vary={"pools.small.gpus": ["4xT4", "4xT5"]}, seeds=1)
    code, answer = _ask(capsys, "sweep", path, "--workers", 1)
    assert (code, answer["done"], answer["complete"]) == (1, 1, True)
    (failure,) = answer["failures"]
    assert failure["variant"] == "small.gpus=4xT5"
    assert "T5" in failure["message"]


# Arrivals


def test_equal_seeds_draw_equal_arrivals(tmp_path: Path) -> None:
    draws = Draws(_ARRIVALS, Objects(), tmp_path, "here")
    first, again, other = ([(a.at, a.lasts) for a in draws.draw(seed).arrivals] for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_described_arrivals_have_their_rate_and_duration(tmp_path: Path) -> None:
    pods = [{"shape": "1xgpu.nvidia.com", "perHour": 60, "minutes": 30}]
    drawn = Draws({"hours": 50, "pods": pods}, Objects(), tmp_path, "here").draw(0).arrivals
    assert len(drawn) == pytest.approx(3000, rel=0.06)
    assert sum(a.lasts or 0 for a in drawn) / len(drawn) == pytest.approx(1800, rel=0.06)


def test_recorded_arrivals_are_drawn_from_the_record(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("start,end,shape\n0,10,1xa\n5,25,2xb\n")
    draws = Draws({"recorded": "t.csv"}, Objects(), tmp_path, "here")
    drawn = [draws.draw(seed).arrivals for seed in range(20)]
    assert {len(each) for each in drawn} == {2}
    assert {arrival.lasts for each in drawn for arrival in each} == {10.0, 20.0}
    assert len({tuple((a.at, a.lasts) for a in each) for each in drawn}) > 3


@pytest.mark.parametrize(
    ("arrivals", "message"),
    [
        ({}, "give either recorded"),
        ({"pods": []}, "arrivals.hours: must be a number above 0"),
        (
            {"hours": 1, "pods": [{"shape": "1xa", "perHour": 0}]},
            r"pods\[0\].perHour: must be a number above 0",
        ),
        ({"hours": 1, "pods": [{}]}, r"pods\[0\]: must have shape, perHour and minutes"),
    ],
)
def test_malformed_arrivals_of_a_sweep_are_rejected(tmp_path: Path, arrivals: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Draws(arrivals, Objects(), tmp_path, "here").draw(0)


# Answers


def test_a_sweep_gives_the_same_answers_as_single_replay_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """500 trials: 50 variants with ten recorded timelines. A sample of them is asked as plan replay."""
    counts = [(large, small) for large in range(5) for small in range(10)]
    for large, small in sample(counts, 3):
        job = _job(
            _write(tmp_path, vary={"pools.large.count": [large], "pools.small.count": [small]}, seeds=10)
        )
        pools = [pool | {"count": count} for pool, count in zip(_POOLS, (large, small), strict=True)]
        fleet = tmp_path / "fleet.yaml"
        fleet.write_text(yaml.safe_dump({"pools": pools}))
        for seed in sample(job.seeds, 1):
            times = tmp_path / "times.csv"
            lines = ["start,end,shape,name", *map(_row, job.draws.draw(seed).arrivals)]
            times.write_text("\n".join(lines))
            course = job.run(job.variants[0], seed).course
            _, answer = _ask(capsys, "replay", times, "--from", fleet)
            (asked,) = answer["courses"]
            assert course is not None
            assert msgspec.convert(asked | {"moments": []}, Course) == course


def _row(arrival: Any) -> str:
    shape = "4xgpu.nvidia.com+cpu=8" if arrival.pod.metadata.name.startswith("pods-0") else "1xgpu.nvidia.com"
    return f"{arrival.at!r},{arrival.at + arrival.lasts!r},{shape},{arrival.pod.metadata.name}"


def test_the_pareto_front_has_the_variants_that_no_other_variant_beats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = _ask(capsys, "sweep", _write(tmp_path), "--workers", 1)
    assert (code, answer["done"], answer["trials"]) == (0, 12, 12)
    variants = {each["name"]: each for each in answer["variants"]}
    front = [variants[name] for name in answer["front"]]
    assert [each["cost"] for each in front] == sorted(each["cost"] for each in front)
    for each in variants.values():
        beaten = any(
            other["cost"] <= each["cost"]
            and other["wait"]["mean"] <= each["wait"]["mean"]
            and (other["cost"], other["wait"]["mean"]) != (each["cost"], each["wait"]["mean"])
            for other in variants.values()
        )
        assert each["best"] != beaten
    assert variants["large.count=0 small.count=0"]["unplaced"]["mean"] > 0


def test_the_estimate_of_a_variant_is_a_t_confidence_interval() -> None:
    found = estimate([1.0, 2.0, 3.0])
    assert (found.mean, found.low) == (2.0, 0.0)
    assert found.high == pytest.approx(2 + 4.303 / 3**0.5, abs=1e-6)
    assert estimate([5.0]).low == 5.0


def test_only_one_of_two_equal_variants_is_on_the_pareto_front() -> None:
    outcomes = [_outcome(name, seed=0, wait=1.0) for name in "ab"]
    assert summarize(outcomes, 2).front == ("a",)


def _outcome(variant: str, seed: int, wait: float = 0.0) -> Outcome:
    waits = Waits(mean=wait)
    course = Course(name="x", pods=1, placed=1, waits=waits, utilisation=0.5, span=1.0, all_waits=waits)
    return Outcome(variant=variant, seed=seed, cost=1.0, course=course)


def test_sweep_over_http_has_a_timeline_for_each_seed() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c"}]},
    }
    arrival = {"at": 0, "lasts": 10, "object": pod}
    body = {
        "variants": [{"name": "now"}, {"name": "none", "remove": ["node-0"]}],
        "draws": [[arrival], [arrival]],
    }
    planner = Planner(World.describe(1, "1xT4").objects)
    answer = json.loads(ask(planner, "sweep", json.dumps(body).encode()))
    assert [(each["name"], each["seeds"], each["unplaced"]["mean"]) for each in answer["variants"]] == [
        ("now", 2, 0.0),
        ("none", 2, 1.0),
    ]


def test_a_sweep_from_python_uses_the_objects_of_its_world(tmp_path: Path) -> None:
    path = _write(
        tmp_path, pools=[], vary={"change": [{"name": "now"}, {"name": "x", "remove": ["node-0"]}]}, seeds=1
    )
    answer = World.describe(1, "8xH100-SXM5-80GB").sweep(path)
    assert [each.name for each in answer.variants] == ["change=now", "change=x"]
    assert answer.variants[0].unplaced.mean < answer.variants[1].unplaced.mean


# Records and interruptions


def _sweep(
    path: Path, record: Path | None = None, goes_on: Callable[[], bool] = lambda: True
) -> list[Outcome]:
    planner = Planner(Objects(), running=goes_on)
    return list(run_sweep(SweepFile(path, 1, "", record), 600.0, planner, Settings()).outcomes)


def test_trials_that_are_in_the_record_are_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, record = _write(tmp_path, vary={"pools.large.count": [1, 2]}), tmp_path / "record"
    first = _sweep(path, record)
    # A run that was killed leaves an incomplete line.
    record.write_bytes(record.read_bytes() + b'{"sweep": "')
    monkeypatch.setattr(Job, "run", lambda *_: pytest.fail("tried again"))
    assert _sweep(path, record) == first
    with pytest.raises(BaseException, match="tried again"):
        _sweep(_write(tmp_path, vary={"pools.large.count": [1, 2]}, seeds=3), record)


def test_an_interrupted_sweep_keeps_the_completed_trials(tmp_path: Path) -> None:
    path, record = _write(tmp_path, vary={"pools.large.count": [1]}, seeds=4), tmp_path / "record"
    asked: list[None] = []

    def goes_on() -> bool:
        asked.append(None)
        return len(asked) < 30

    answer = summarize(_sweep(path, record, goes_on), 4)
    assert not answer.complete
    assert 0 < answer.done < 4
    assert summarize(_sweep(path, record), 4).done == 4


# Workers


class _Lane:
    """A worker that dies of one variant, and answers at once for the others."""

    def __init__(self, deadly: str) -> None:
        self._deadly = deadly
        self.renewed = 0

    def submit(self, variant: Variant, seed: int) -> "Future[Outcome]":
        future: Future[Outcome] = Future()
        if variant.name == self._deadly:
            future.set_exception(BrokenProcessPool("gone"))
        else:
            future.set_result(_outcome(variant.name, seed))
        return future

    def renew(self) -> None:
        self.renewed += 1

    def close(self) -> None: ...


def test_a_worker_that_dies_loses_only_its_current_trial() -> None:
    lanes = [_Lane("b"), _Lane("b")]
    trials = [(Variant(name, {}), seed) for name in "abc" for seed in range(2)]
    answer = summarize(run_lanes(lanes, trials, lambda: True), len(trials))
    assert [(each.name, each.seeds) for each in answer.variants] == [("a", 2), ("c", 2)]
    assert [(each.variant, each.message) for each in answer.failures] == [("b", "its worker died")] * 2
    assert sum(lane.renewed for lane in lanes) == 2
    assert answer.complete
    assert not answer.good


def test_dask_can_run_the_trials_of_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _write(tmp_path, vary={"pools.large.count": [1, 2]})
    module: Any = ModuleType("distributed")
    module.Client = _Client
    monkeypatch.setitem(sys.modules, "distributed", module)
    file = SweepFile(path, engine="dask://127.0.0.1:8786")
    trials = run_sweep(file, 600.0, Planner(Objects()), Settings())
    found = sorted(trials.outcomes, key=lambda outcome: (outcome.variant, outcome.seed))
    assert found == sorted(_sweep(path), key=lambda outcome: (outcome.variant, outcome.seed))


class _Client:
    """Dask's client, as far as a sweep uses it, with one thread in place of a cluster."""

    def __init__(self, address: str, **_: Any) -> None:
        assert address == "tcp://127.0.0.1:8786"

    def nthreads(self) -> dict[str, int]:
        return {"worker": 1}

    def scatter(self, data: list[Any], **_: Any) -> list[Any]:
        # Dask pickles the data that it sends to its workers.
        return pickle.loads(pickle.dumps(data))  # type: ignore[no-any-return]  # a list, as given

    def get_executor(self, **_: Any) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1)

    def close(self) -> None: ...


def test_workers_of_another_version_are_refused(tmp_path: Path) -> None:
    job = dataclasses.replace(_job(_write(tmp_path)), version="0.0.0")
    with pytest.raises(RuntimeError, match=r"not 0\.0\.0"):
        run_remote(job, job.variants[0], 0)


@pytest.mark.parametrize(
    ("engine", "message"),
    [("ray://a:1", "only dask://HOST:PORT"), ("dask://a:1", r"pip install 'dralab\[dask\]'")],
)
def test_engines_that_cannot_be_used_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, message: str
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    trials = run_sweep(SweepFile(_write(tmp_path), engine=engine), 600.0, Planner(Objects()), Settings())
    with pytest.raises(UserError, match=message):
        _exhaust(trials.outcomes)


def _exhaust(outcomes: Any) -> None:
    found: Iterator[Outcome] = iter(outcomes)
    for _ in found:
        pass
