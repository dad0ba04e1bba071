"""The distribution, built once, and an environment that has nothing but it."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

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


class Dist(NamedTuple):
    """What ``make dist`` has put into a folder; `problem` is why it could not get the wheels of others."""

    folder: Path
    problem: str


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Dist:
    """Ours is built before those of others are fetched, for which a network is needed."""
    folder = tmp_path_factory.mktemp("dist")
    result = subprocess.run(
        ["make", "-s", "dist", f"DIST={folder}"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert (folder / WHEEL).exists(), result.stdout + result.stderr
    return Dist(folder, (result.stderr.strip() or "no reason given") if result.returncode else "")


@pytest.fixture(scope="session")
def dist(made: Dist) -> Path:
    return made.folder


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
