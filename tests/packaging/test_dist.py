"""``make dist``, tried as a user would: in an environment that has nothing of the checkout."""

import os
import re
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from dra_shared import __version__

from tests.packaging.conftest import WHEEL, Dist, run
from tests.support.reference import REPOSITORY

# The first builds what all of them look at.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_nothing_of_the_checkout_is_used(empty: Path) -> None:
    shown = run(empty / "python", "-c", "import dra_shared; print(dra_shared.__file__)", cwd=empty)
    assert Path(shown.strip()).is_relative_to(empty.parent)


@pytest.mark.parametrize("command", [("dralab",), ("python", "-m", "dralab")], ids=" ".join)
def test_the_command_knows_its_version(empty: Path, command: tuple[str, ...]) -> None:
    assert run(empty / command[0], *command[1:], "--version", cwd=empty) == f"dralab {__version__}\n"


@pytest.fixture
def data(empty: Path, tmp_path: Path) -> Iterator[Path]:
    run(
        empty / "dralab",
        "up",
        "-d",
        "--nodes",
        "1",
        "--port",
        "0",
        "--relaxed",
        "--data",
        tmp_path,
        cwd=empty,
    )
    yield tmp_path
    run(empty / "dralab", "down", "--data", tmp_path, cwd=empty)


def test_a_pod_runs(empty: Path, data: Path) -> None:
    manifest = data / "pod.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
        "spec: {containers: [{name: c, image: i, command: [echo, it runs]}], restartPolicy: Never}\n"
    )
    run(empty / "dralab", "apply", "-f", manifest, "--data", data, cwd=empty)
    assert run(empty / "dralab", "logs", "-f", "p", "--data", data, cwd=empty) == "it runs\n"


def test_the_sdist_has_what_the_wheel_is_made_of(dist: Path) -> None:
    with zipfile.ZipFile(dist / WHEEL) as wheel, tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        inside = {
            name
            for name in wheel.namelist()
            if not re.search(r"\.dist-info/|/examples/|^dra_cli/site/", name)
        }
        archived = {name.partition("/")[2] for name in sdist.getnames()}
    packages = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    sources = {f"{Path(path).parent}/" for path in packages["wheel"]["packages"]}
    assert {name for name in inside if not any(source + name in archived for source in sources)} == set()
    assert {"pyproject.toml", "tools/hatch_build.py", "LICENSE"} <= archived


def test_extras_are_named(dist: Path) -> None:
    with zipfile.ZipFile(dist / WHEEL) as wheel:
        metadata = wheel.read(f"dralab-{__version__}.dist-info/METADATA").decode()
    for extra, need in (("docker", "docker"), ("console", "fastapi"), ("postgresql", "psycopg[binary]")):
        assert f"Requires-Dist: {need}; extra == '{extra}'" in metadata
    assert "Requires-Dist: httpx\n" in metadata


def test_the_folder_is_all_that_an_installation_needs(made: Dist, tmp_path: Path) -> None:
    if made.problem and "CI" not in os.environ:
        pytest.skip(f"the wheels of others cannot be had here: {made.problem.splitlines()[-1]}")
    assert made.problem == ""
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    pip = (sys.executable, "-m", "pip", "--isolated", "--python", environment / "bin" / "python")
    found = run(
        *pip,
        "install",
        "--dry-run",
        "--no-index",
        "--find-links",
        made.folder,
        "dralab[docker,console,postgresql]",
    )
    assert f" dralab-{__version__} " in found.splitlines()[-1]
