"""The distribution, built once, and an environment that has nothing but it."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from dra_shared import __version__

from tests.support.reference import REPOSITORY

WHEEL = f"dralab-{__version__}-py3-none-any.whl"


def run(*command: str | Path, cwd: Path = REPOSITORY, **environment: str) -> str:
    """What the command prints; it must succeed."""
    result = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and the sdist and return their folder."""
    folder = tmp_path_factory.mktemp("dist")
    run("tools/wheel", sys.executable, folder)
    assert (folder / WHEEL).exists()
    return folder


@pytest.fixture(scope="session")
def empty(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel; what the wheel requires is found where these tests find it."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", dist / WHEEL)
    site = next(folder.glob("lib/python*/site-packages"))
    # A path in a .pth file is searched, and the .pth files there, ours of the checkout among them, are not read.
    (site / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"
