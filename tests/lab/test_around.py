"""``dralab run``: a command that runs with a cluster of its own."""

import sys
from pathlib import Path

import pytest
from dra_cli.main import main


def _run(*words: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(["run", *words])
    return ended.value.code


def test_the_run_command_requires_a_command_to_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--nodes", "1") == 2
    assert capsys.readouterr().err == "dralab: say what to run: dralab run [OPTIONS] -- COMMAND\n"


@pytest.mark.system
def test_run_returns_the_exit_code_of_the_command_and_stops_the_cluster(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    program = (
        "import os, sys, pathlib, urllib.request as u, yaml\n"
        "config = yaml.safe_load(open(os.environ['KUBECONFIG']))\n"
        "u.urlopen(config['clusters'][0]['cluster']['server'] + '/readyz')\n"
        f"pathlib.Path({str(seen)!r}).write_text(os.environ['DRALAB_DATA'])\n"
        "sys.exit(7)"
    )
    without = [word for name in ("scheduler", "controller", "node-agent") for word in ("--without", name)]
    assert _run(*without, "--", sys.executable, "-c", program) == 7
    assert not Path(seen.read_text()).exists()


@pytest.mark.system
def test_an_unknown_command_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    without = [word for name in ("scheduler", "controller", "node-agent") for word in ("--without", name)]
    assert _run(*without, "--", "no-such-program") == 127
    assert capsys.readouterr().err == "dralab: no-such-program: command not found\n"
