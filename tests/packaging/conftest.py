"""The distribution, built once, and an environment with nothing else."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from dra_shared import __version__
from packaging.requirements import Requirement

from tests.support.reference import REPOSITORY

WHEEL = f"dralab-{__version__}-py3-none-any.whl"


def run(*command: str | Path, cwd: Path = REPOSITORY, **environment: str) -> str:
    """Return the output of the command, which must succeed."""
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


def _locked() -> Iterator[metadata.Distribution]:
    """Yield the installed distribution of each line of the lock that is for this Python and this machine."""
    for line in (REPOSITORY / "requirements.lock").read_text().splitlines():
        if line[:1].isalnum():
            requirement = Requirement(line.rstrip("\\ "))
            if requirement.marker is None or requirement.marker.evaluate():
                installed = metadata.distribution(requirement.name)
                assert requirement.specifier.contains(installed.version), requirement
                yield installed


def _write_empty_wheel(folder: Path, installed: metadata.Distribution) -> None:
    """Write a wheel with the metadata of a distribution and none of its files: a resolver reads no more."""
    name = installed.metadata["Name"].replace("-", "_").replace(".", "_")
    info = f"{name}-{installed.version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{installed.version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", installed.read_text("METADATA") or "")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture(scope="session")
def locked(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with our wheel, and an empty one for each line of the lock."""
    folder = tmp_path_factory.mktemp("locked")
    shutil.copy(dist / WHEEL, folder)
    for installed in _locked():
        _write_empty_wheel(folder, installed)
    return folder


def install(interpreter: str, locked: Path, environment: Path) -> Path:
    """Install our wheel and the empty ones in a new environment, as pip resolves them. Return its commands' folder."""
    run(interpreter, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--isolated", "--python", python, "install", "-q", "--no-index")
    # Compile only the files that the tests run.
    run(*pip, "--no-compile", "--find-links", locked, "dralab[docker,console,postgresql]")
    return environment / "bin"


@pytest.fixture(scope="session")
def empty(locked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with the wheel. Its dependencies are found where these tests find them."""
    folder = tmp_path_factory.mktemp("environment")
    commands = install(sys.executable, locked, folder)
    site = next(folder.glob("lib/python*/site-packages"))
    # A path in a .pth file is added to the search path, but .pth files in that folder are not read. So those
    # of our checkout have no effect.
    (site / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return commands
