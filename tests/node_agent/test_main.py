"""The node agent's command line."""

import subprocess
import sys
from pathlib import Path

import pytest
from dra_node_agent.main import main
from dra_node_agent.nvml.library import has_gpus
from dra_shared.listening import CANNOT_RUN


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dra_node_agent.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpus", "8xVoodoo2"], "Voodoo2"),
        # Those that are known are listed.
        (["--gpus", "8xVoodoo2"], "A100-SXM4-40GB"),
        (["--driver", "no.such.driver"], "unknown driver 'no.such.driver', known drivers: "),
        (["--nodes", "-1"], "--nodes must be between 1 and 10000"),
        (["--nodes", "2", "--root-dir", "/tmp/x"], "--root-dir and --cdi-dir are for a single node"),
        (["--node-labels", "a=b c"], "error: invalid node labels: 'a' - a valid label must be"),
        (
            ["--register-with-taints", "a b=:NoSchedule"],
            "error: invalid taint spec: a b=:NoSchedule, name part",
        ),
        (["--images", "/nowhere/images.yaml"], "cannot read images /nowhere/images.yaml: No such file"),
        (["--feature-gates", "DRADeviceTaints"], "missing bool value for DRADeviceTaints"),
    ],
)
def test_invalid_options_of_the_node_agent_are_reported(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["dralab-node-agent", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_corrupt_checkpoint_stops_the_agent(tmp_path: Path) -> None:
    root = tmp_path / "kubelet"
    root.mkdir()
    (root / "dra_manager_state").write_text('{"Data":"{}","Checksum":1}')
    done = _run("--data", str(tmp_path), "--node-name", "node", "--root-dir", str(root))
    assert done.returncode == CANNOT_RUN
    assert "checkpoint is corrupted" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(has_gpus(), reason="this machine has a GPU")
def test_gpus_of_the_host_need_an_nvidia_driver() -> None:
    done = _run("--gpus", "host")
    assert done.returncode == 2
    assert done.stderr.endswith("error: --gpus host: this machine has no NVIDIA driver\n")


def test_a_directory_that_cannot_be_created_stops_the_agent(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = _run("--data", str(tmp_path / "data"), "--root-dir", str(tmp_path / "file" / "kubelet"))
    assert done.returncode == CANNOT_RUN
    assert f"cannot make or use {tmp_path}/file" in done.stderr
    assert "Traceback" not in done.stderr
