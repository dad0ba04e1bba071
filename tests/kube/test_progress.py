"""Progress of long operations, on a terminal and in a log."""

import io

import pytest
from dra_kube.progress import Progress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class _Time:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_progress_on_a_terminal_is_one_line_that_is_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    stream, clock = _Terminal(), _Time()
    with Progress("applying", 20, stream=stream, monotonic=clock) as progress:
        for _ in range(10):
            clock.seconds += 0.5
            progress.step()
        progress.print("pod/x created")
    shown = stream.getvalue()
    assert "\r\033[Kapplying 10/20 [############            ] 5 s, about 5 s to go" in shown
    assert shown.endswith("\r\033[K")
    assert "\n" not in shown
    assert capsys.readouterr().out == "pod/x created\n"


def test_progress_in_a_log_is_printed_as_plain_lines_at_intervals() -> None:
    stream, clock = io.StringIO(), _Time()
    with Progress("applying", 100, stream=stream, monotonic=clock) as progress:
        for _ in range(50):
            clock.seconds += 0.5
            progress.step()
    assert stream.getvalue() == "applying 20/100 after 10 s\napplying 40/100 after 20 s\n"


@pytest.mark.parametrize(("total", "seconds"), [(9, 100.0), (1000, 0.001)])
def test_short_operations_show_no_progress(total: int, seconds: float) -> None:
    stream, clock = _Terminal(), _Time()
    with Progress("applying", total, stream=stream, monotonic=clock) as progress:
        for _ in range(9):
            clock.seconds += seconds
            progress.step()
    assert stream.getvalue() == ""


def test_a_note_is_printed_in_place_of_the_progress_line() -> None:
    stream, clock = _Terminal(), _Time()
    with Progress("compared", 20, stream=stream, monotonic=clock) as progress:
        for _ in range(4):
            clock.seconds += 0.5
            progress.step()
        progress.note("line 4: no such field")
    assert stream.getvalue().endswith("to go\r\033[Kline 4: no such field\n")
