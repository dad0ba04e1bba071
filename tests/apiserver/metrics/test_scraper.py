"""Test when kubelets are asked, and which samples are compared."""

import asyncio

from dra_apiserver.kinds.metrics.samples import Point, Sample
from dra_apiserver.kinds.metrics.scraper import Scraper
from dra_shared.clock import FakeClock, settle


class _Kubelets:
    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.asked: list[tuple[str, float]] = []
        self.gone: set[str] = set()

    async def sample(self, node: str) -> Sample | None:
        at = self._clock.monotonic()
        self.asked.append((node, at))
        return None if node in self.gone else Sample(Point(at, 0.0, 0))


async def _times(scraper: Scraper, clock: FakeClock, seconds: float = 1.0) -> tuple[float, float] | None:
    asking = asyncio.ensure_future(scraper.pairs(["a"]))
    await clock.advance(seconds)
    pair = (await asking).get("a")
    return None if pair is None else (pair.before.node.at, pair.last.node.at)


async def test_the_first_request_scrapes_kubelets_twice_and_later_requests_once() -> None:
    clock = FakeClock()
    kubelets = _Kubelets(clock)
    scraper = Scraper(clock, kubelets.sample)
    assert await _times(scraper, clock) == (0, 1)
    # While they are fresh, kubelets are not asked again.
    assert await _times(scraper, clock, 4) == (0, 1)
    assert [at for _, at in kubelets.asked] == [0, 1]
    await clock.advance(15)
    assert await _times(scraper, clock) == (1, 20)
    # Samples that are too old are not used.
    await clock.advance(100)
    assert await _times(scraper, clock) == (121, 122)


async def test_simultaneous_requests_share_one_scrape_of_the_kubelets() -> None:
    clock = FakeClock()
    kubelets = _Kubelets(clock)
    scraper = Scraper(clock, kubelets.sample)
    asking = [asyncio.ensure_future(scraper.pairs(["a", "b"])) for _ in range(5)]
    await clock.advance(1)
    assert [sorted(await one) for one in asking] == [["a", "b"]] * 5
    assert sorted(kubelets.asked) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


async def test_a_node_that_does_not_answer_is_left_out() -> None:
    clock = FakeClock()
    kubelets = _Kubelets(clock)
    scraper = Scraper(clock, kubelets.sample)
    assert await _times(scraper, clock) == (0, 1)
    kubelets.gone.add("a")
    await clock.advance(10)
    assert await _times(scraper, clock) is None
    # Once the kubelet answers again, its old samples are not used.
    kubelets.gone.clear()
    await settle()
    assert await _times(scraper, clock) == (12, 13)
