"""What the command says of its own use."""

import sys

import pytest
from dra_cli.main import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nosuch", "dralab: No such command 'nosuch'; see dralab --help\n"),
        ("get --bogus", "dralab: No such option: --bogus; see dralab --help\n"),
        ("apply", "dralab: Missing option '--filename' / '-f'; see dralab --help\n"),
        ("bench", "dralab: Missing argument 'name'; see dralab --help\n"),
    ],
)
def test_misuse_is_one_line(
    arguments: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["dralab", *arguments.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == message


def test_help_of_a_benchmark_is_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["dralab", "bench", "allocator", "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "usage: bench allocator" in capsys.readouterr().out
