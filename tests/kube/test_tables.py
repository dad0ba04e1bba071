"""Tables on a terminal and in a pipe."""

import pytest
from dra_kube.tables import Table, natural_key

_RED, _GREEN, _PLAIN = "\033[31m", "\033[32m", "\033[0m"


@pytest.mark.parametrize(
    ("terminal", "environment", "colours"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        # As in https://no-color.org: set, but empty.
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_states_have_colors_only_on_a_terminal(
    terminal: bool, environment: dict[str, str], colours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    shown = Table(["NAME", "STATUS"]).text(
        [["Running", "Running"], ["b", "Failed"], ["c", "SchedulingDisabled"]]
    )
    plain = "NAME      STATUS\nRunning   Running\nb         Failed\nc         SchedulingDisabled"
    assert shown.replace(_GREEN, "").replace(_RED, "").replace(_PLAIN, "") == plain
    assert (shown != plain) is colours
    assert (f"{_RED}Failed{_PLAIN}" in shown) is colours


def test_colors_do_not_affect_the_alignment_of_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    table = Table(["STATUS", "NAME"], headers=False)
    assert table.text([["Failed", "a"], ["Running", "b"]]) == (
        f"{_RED}Failed{_PLAIN}    a\n{_GREEN}Running{_PLAIN}   b"
    )


def test_rows_printed_later_keep_the_column_widths() -> None:
    table = Table(["NAME", "AGE"])
    assert table.text([["long-name", "1s"]]) == "NAME        AGE\nlong-name   1s"
    assert table.text([["x", "2s"]]) == "x           2s"


def test_names_with_numbers_are_sorted_numerically() -> None:
    assert sorted(["node-10", "node-2", "a"], key=natural_key) == ["a", "node-2", "node-10"]
