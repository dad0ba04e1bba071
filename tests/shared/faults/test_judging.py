"""Test that a fault is observed from before it begins until the cluster is at rest."""

import asyncio
from collections.abc import Sequence

from dra_shared.clock import FakeClock
from dra_shared.faults.judging import Judge
from dra_shared.faults.promises import Verdict
from dra_shared.faults.story import Sample, Story

from tests.shared.faults.samples import claim, node, pod, sample, slices_of


class _Cluster:
    """A cluster whose state depends on a clock. ``after`` lists seconds and the state from then on."""

    def __init__(self, clock: FakeClock, first: Sample, *after: tuple[float, Sample | None]) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._states: Sequence[tuple[float, Sample | None]] = [(0.0, first), *after]

    async def look(self) -> Sample:
        spent = self._clock.monotonic() - self._began
        found = [state for since, state in self._states if since <= spent][-1]
        if found is None:
            raise ConnectionError("it stands still")
        return found


RUNS = sample(pod(), claim("c", "gpu-0"), slices_of("gpu-0"), node())
RESTARTED = sample(pod(restarts=1), claim("c", "gpu-0"), slices_of("gpu-0"), node())
WAITS = sample(pod(phase="Pending"), claim("c", "gpu-0"), slices_of("gpu-0"), node())


async def _verdict(
    clock: FakeClock, cluster: _Cluster, story: Story, over: asyncio.Event | None = None
) -> Verdict:
    judge = Judge(story, cluster.look, clock, (ConnectionError,))
    await judge.before()
    task = asyncio.create_task(judge.verdict(over or asyncio.Event()))
    while not task.done():
        await clock.advance(0.25)
    return task.result()


async def test_kept_promises_of_a_fault_are_listed_once_the_cluster_is_at_rest() -> None:
    clock = FakeClock()
    verdict = await _verdict(clock, _Cluster(clock, RUNS), Story("stop", 5))
    assert not verdict.broken
    assert verdict.kept[0] == "containers kept running"
    assert 6 <= clock.monotonic() < 20


async def test_an_invariant_that_was_broken_temporarily_is_reported() -> None:
    clock = FakeClock()
    cluster = _Cluster(clock, RUNS, (2, RESTARTED))
    verdict = await _verdict(clock, cluster, Story("kubelet-stop", 5))
    assert verdict.broken == ["containers of pod a/p were restarted"]
    assert "containers kept running" not in verdict.kept
    # The judge does not wait for processes that do not come back.
    assert clock.monotonic() < 20


async def test_problems_that_existed_before_the_fault_are_ignored() -> None:
    clock = FakeClock()
    assert not (await _verdict(clock, _Cluster(clock, WAITS), Story("disk-full", 1))).broken
    clock = FakeClock()
    verdict = await _verdict(clock, _Cluster(clock, RUNS, (0.5, WAITS)), Story("disk-full", 1))
    assert verdict.broken == ["pod a/p is on node-0 and does not run: Pending"]


async def test_a_server_that_did_not_respond_is_queried_again() -> None:
    clock = FakeClock()
    verdict = await _verdict(clock, _Cluster(clock, RUNS, (1, None), (20, RUNS)), Story("stop", 5))
    assert not verdict.broken
    clock = FakeClock()
    verdict = await _verdict(clock, _Cluster(clock, RUNS, (1, None)), Story("stop", 5))
    assert verdict.broken == ["the cluster cannot be read"]


async def test_a_cleared_fault_is_checked_with_its_actual_duration() -> None:
    clock, over, story = FakeClock(), asyncio.Event(), Story("xid", 600, "node-0")
    over.set()
    # After ten minutes without a taint the verdict would be that no device was tainted.
    assert not (await _verdict(clock, _Cluster(clock, RUNS), story, over)).broken
    assert story.seconds < 1
