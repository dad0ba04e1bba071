"""One cluster of real processes for all clients."""

import gc
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from dra_kube.cluster import Cluster


def _dralab(data: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "dra_cli.main", *arguments, "--data", str(data)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(autouse=True)
def _left_connections() -> Iterator[None]:
    """Collect the connections that some clients leave open, so that they are not reported for another test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="package")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("clients")
    _dralab(path, "up", "--detach", "--port", "0", "--nodes", "2")
    yield path
    _dralab(path, "down")


@pytest.fixture(scope="package")
def server(data: Path) -> str:
    return Cluster(data).record().server


@pytest.fixture(scope="package")
def kubeconfig(data: Path) -> Path:
    return data / "kubeconfig"
