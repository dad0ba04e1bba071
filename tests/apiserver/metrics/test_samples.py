"""Test the usage between two samples of a kubelet."""

from datetime import UTC, datetime

from dra_apiserver.kinds.metrics.samples import Point, Sample, Use, node_use, parse, pod_use, window_text

from tests.support.cases import each_case


def _sample(at: float, node: float, **containers: float) -> Sample:
    """Return a sample with CPU seconds of the node and of pod ns/pod. Containers named ``*_new`` started at 95 s."""
    stamp = round(at * 1000)
    lines = [f"node_cpu_usage_seconds_total {node} {stamp}", f"node_memory_working_set_bytes 3e+08 {stamp}"]
    for name, used in containers.items():
        labels = f'{{container="{name}",namespace="ns",pod="pod"}}'
        started = 95 if name.endswith("_new") else 1
        lines += [
            f"container_start_time_seconds{labels} {started}",
            f"container_cpu_usage_seconds_total{labels} {used} {stamp}",
            f"container_memory_working_set_bytes{labels} 1048576 {stamp}",
        ]
    return parse("\n".join([*lines, "scrape_error 0", ""]), 0.0)


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_cpu_usage_is_the_difference_of_two_samples_divided_by_the_time_between() -> None:
    before, last = _sample(90, 100), _sample(100, 105)
    assert node_use(last, before) == Use(500_000_000, 300_000_000, _at(100), 10.0)
    assert Use(500_000_000, 64 << 20, _at(0), 1).resources() == {"cpu": "500m", "memory": "64Mi"}
    assert Use(1_234_567, 5000, _at(0), 1).resources() == {"cpu": "1234567n", "memory": "5000"}


def test_a_container_that_has_started_since_counts_from_its_start() -> None:
    found = pod_use(_sample(100, 0, old=4, b_new=1), _sample(90, 0, old=3, b_new=50), "ns", "pod")
    assert found == {
        "old": Use(100_000_000, 1 << 20, _at(100), 10.0),
        "b_new": Use(200_000_000, 1 << 20, _at(100), 5.0),
    }


def test_a_constant_rate_is_the_same_over_every_window() -> None:
    start = 1_795_360_400.049417
    for step in range(1, 2000, 7):
        at = round(start + step / 100, 3)
        used = round(at - start, 6) * 1.75
        point, before = Point(at, used, 1, start), Point(start, 0.0, 0, start)
        use = node_use(Sample(point), Sample(before))
        assert use is not None
        assert use.cpu in {1_750_000_000, 1_749_999_999}


def test_usage_is_unknown_without_two_comparable_samples() -> None:
    assert node_use(_sample(90, 100), _sample(90, 100)) is None
    assert node_use(_sample(100, 3), _sample(90, 100)) is None
    assert node_use(Sample(), Sample()) is None
    assert pod_use(_sample(100, 0), _sample(90, 0), "ns", "pod") is None
    # If the counter of one container decreased, the whole pod is left out.
    assert pod_use(_sample(100, 0, a=4, b=1), _sample(90, 0, a=3, b=2), "ns", "pod") is None


def test_samples_without_a_time_get_the_time_of_the_response() -> None:
    assert parse("node_cpu_usage_seconds_total 5\n", 42.0).node.at == 42.0


@each_case(
    ("seconds", "text"),
    [(0, "0s"), (0.25, "250ms"), (1, "1s"), (15.024, "15.024s"), (60.5, "1m0.5s"), (120, "2m0s")],
)
def test_windows_are_written_as_durations(seconds: float, text: str) -> None:
    assert window_text(seconds) == text
