"""The scheduler's options."""

import socket
from pathlib import Path

import pytest
from dra_controller.manager import ControllerConfig
from dra_scheduler import main
from dra_shared.features import FeatureGates

_FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: ELECTS}
"""


@pytest.mark.parametrize(
    ("file", "words", "elects"),
    [
        ("", [], False),
        ("", ["--leader-elect"], True),
        ("true", [], True),
        ("true", ["--leader-elect=false"], False),
        ("false", ["--leader-elect=true"], True),
    ],
)
def test_the_leader_election_flag_overrides_the_configuration_file(
    tmp_path: Path, file: str, words: list[str], elects: bool
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(_FILE.replace("ELECTS", file))
    chosen = main.options().parse_args([*(["--config", str(config)] if file else []), *words])
    loaded = main._load(config, FeatureGates()) if file else None
    assert main._config(chosen, FeatureGates(), loaded).leader_elect is elects


def test_replicas_with_equal_host_and_process_id_have_different_identities() -> None:
    """Containers on the host's network share both. With one identity, both would lead."""
    chosen = main.options().parse_args(["--leader-elect"])
    names = {main._config(chosen, FeatureGates(), None).identity for _ in range(2)}
    names |= {ControllerConfig().identity for _ in range(2)}
    assert len(names) == 4
    assert {name.rpartition("_")[0] for name in names} == {socket.gethostname()}
